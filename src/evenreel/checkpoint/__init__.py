"""Checkpoints of matchers: a folder with config.json, model.safetensors and a model card, or the hub id of one."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
