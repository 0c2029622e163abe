from .contrastive import info_nce as info_nce, source_hinge as source_hinge, source_neutral as source_neutral
from .ranking import (
    RANKING_PRESETS as RANKING_PRESETS,
    RankingSettings as RankingSettings,
    ranking_hinge as ranking_hinge,
)
