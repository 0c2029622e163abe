"""A rendered world whose truth is known: scenes, their captions, their pictures and their files."""

from evenreel.planted.captions import ATTRIBUTES, caption
from evenreel.planted.draw import Renderer, draw_clip, draw_frame
from evenreel.planted.scenes import Entity, Scene, SceneRanges, Sign, sample_scene
from evenreel.planted.write import write_clip, write_scene

__all__ = [
    "ATTRIBUTES",
    "Entity",
    "Renderer",
    "Scene",
    "SceneRanges",
    "Sign",
    "caption",
    "draw_clip",
    "draw_frame",
    "sample_scene",
    "write_clip",
    "write_scene",
]
