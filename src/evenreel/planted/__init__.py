"""A rendered world whose truth is known: scenes, their captions, their pictures, and corpora with a planted bias."""

from evenreel.corpus.lenders import OVERLAYS
from evenreel.planted.biases import BIASES, BiasName
from evenreel.planted.captions import ATTRIBUTES, caption
from evenreel.planted.draw import Renderer, draw_clip, draw_frame
from evenreel.planted.edits import CAPTION_EDITS, CLIP_EDITS, described, edited
from evenreel.planted.features import text_features, video_features
from evenreel.planted.folder import page_of, write_corpus
from evenreel.planted.look import Look
from evenreel.planted.plan import PlantedClip, PlantedCorpus, plan_corpus
from evenreel.planted.scenes import Entity, Scene, SceneRanges, SignBoard, sample_scene
from evenreel.planted.shots import PlantSettings
from evenreel.planted.statistics import PlantedStatistics, planted_statistics
from evenreel.planted.tables import corpus_of
from evenreel.planted.write import write_clip, write_scene

__all__ = [
    "ATTRIBUTES",
    "BIASES",
    "CAPTION_EDITS",
    "CLIP_EDITS",
    "OVERLAYS",
    "BiasName",
    "Entity",
    "Look",
    "PlantSettings",
    "PlantedClip",
    "PlantedCorpus",
    "PlantedStatistics",
    "Renderer",
    "Scene",
    "SceneRanges",
    "SignBoard",
    "caption",
    "corpus_of",
    "described",
    "draw_clip",
    "draw_frame",
    "edited",
    "page_of",
    "plan_corpus",
    "planted_statistics",
    "sample_scene",
    "text_features",
    "video_features",
    "write_clip",
    "write_corpus",
    "write_scene",
]
