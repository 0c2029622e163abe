from .admission import Admission as Admission, admission_line as admission_line, admission_of as admission_of
from .biases import BIASES as BIASES, BiasName as BiasName
from .captions import ATTRIBUTES as ATTRIBUTES, caption as caption
from .draw import Renderer as Renderer, draw_clip as draw_clip, draw_frame as draw_frame
from .edits import CAPTION_EDITS as CAPTION_EDITS, CLIP_EDITS as CLIP_EDITS, described as described, edited as edited
from .features import text_features as text_features, video_features as video_features
from .folder import page_of as page_of, write_corpus as write_corpus
from .harder import Harder as Harder
from .look import Look as Look
from .plan import PlantedClip as PlantedClip, PlantedCorpus as PlantedCorpus, plan_corpus as plan_corpus
from .scenes import (
    Entity as Entity,
    Scene as Scene,
    SceneRanges as SceneRanges,
    SignBoard as SignBoard,
    sample_scene as sample_scene,
)
from .shots import PlantSettings as PlantSettings
from .statistics import PlantedStatistics as PlantedStatistics, planted_statistics as planted_statistics
from .tables import corpus_of as corpus_of
from .voices import SpokenSentence as SpokenSentence, speak as speak
from .write import write_clip as write_clip, write_scene as write_scene
