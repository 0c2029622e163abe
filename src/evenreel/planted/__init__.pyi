from .biases import (
    ATTRIBUTES as ATTRIBUTES,
    BIASES as BIASES,
    BiasName as BiasName,
    Harder as Harder,
    PlantSettings as PlantSettings,
    caption as caption,
)
from .draw import (
    Renderer as Renderer,
    draw_clip as draw_clip,
    draw_frame as draw_frame,
    write_clip as write_clip,
    write_scene as write_scene,
)
from .edits import CAPTION_EDITS as CAPTION_EDITS, CLIP_EDITS as CLIP_EDITS, described as described, edited as edited
from .features import text_features as text_features, video_features as video_features
from .folder import (
    Admission as Admission,
    PlantedStatistics as PlantedStatistics,
    admission_line as admission_line,
    admission_of as admission_of,
    corpus_of as corpus_of,
    page_of as page_of,
    planted_statistics as planted_statistics,
    write_corpus as write_corpus,
)
from .plan import PlantedClip as PlantedClip, PlantedCorpus as PlantedCorpus, plan_corpus as plan_corpus
from .scenes import (
    Entity as Entity,
    Look as Look,
    Scene as Scene,
    SceneRanges as SceneRanges,
    SignBoard as SignBoard,
    sample_scene as sample_scene,
)
from .voices import SpokenSentence as SpokenSentence, speak as speak
