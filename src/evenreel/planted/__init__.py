"""A rendered world whose truth is known: scenes, their captions, their pictures, and corpora with a planted bias."""

from evenreel.planted.biases import BIASES, BiasName
from evenreel.planted.captions import ATTRIBUTES, caption
from evenreel.planted.draw import Renderer, draw_clip, draw_frame
from evenreel.planted.features import text_features, video_features
from evenreel.planted.look import Look
from evenreel.planted.plan import PlantedClip, PlantedCorpus, plan_corpus
from evenreel.planted.scenes import Entity, Scene, SceneRanges, Sign, sample_scene
from evenreel.planted.shots import PlantSettings
from evenreel.planted.write import write_clip, write_scene

__all__ = [
    "ATTRIBUTES",
    "BIASES",
    "BiasName",
    "Entity",
    "Look",
    "PlantSettings",
    "PlantedClip",
    "PlantedCorpus",
    "Renderer",
    "Scene",
    "SceneRanges",
    "Sign",
    "caption",
    "draw_clip",
    "draw_frame",
    "plan_corpus",
    "sample_scene",
    "text_features",
    "video_features",
    "write_clip",
    "write_scene",
]
