"""Text-to-video retrieval you can trust."""

import os
from importlib import import_module

# What we use tells its makers of it unless told not to; said before any of it is imported, and to our processes too.
for _telemetry, _off in (
    ("DISABLE_SAFETENSORS_CONVERSION", "1"),  # of transformers, which asks the hub for it
    ("DO_NOT_TRACK", "1"),
    ("HF_HUB_DISABLE_TELEMETRY", "1"),
    ("HF_UPDATE_DOWNLOAD_COUNTS", "0"),  # of datasets, which counts what is loaded
    ("ORT_DISABLE_TELEMETRY", "1"),
    ("RAY_USAGE_STATS_ENABLED", "0"),
):
    os.environ.setdefault(_telemetry, _off)

# A module that imports nothing of ours, and so none that would need this package before it is whole.
__getattr__, __dir__, __all__ = import_module("evenreel.extras").offered(__name__, __file__)
