"""Checkpoints of matchers: a folder with config.json, model.safetensors and a model card, or the hub id of one."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
