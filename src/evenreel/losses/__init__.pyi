from .contrastive import info_nce as info_nce
from .neighbours import (
    centrality_weighting as centrality_weighting,
    level_divergence as level_divergence,
    neighbour_adjusting as neighbour_adjusting,
    sample_centrality as sample_centrality,
    transport_plan as transport_plan,
    uniform_regularisation as uniform_regularisation,
)
from .ranking import (
    RANKING_PRESETS as RANKING_PRESETS,
    RankingSettings as RankingSettings,
    ranking_hinge as ranking_hinge,
)
from .source_gap import source_hinge as source_hinge, source_neutral as source_neutral
