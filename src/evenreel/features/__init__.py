"""Features of clips and captions, computed once, and the words read on screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenreel.features.compute import compute_features
    from evenreel.features.load import FoundClips, find_clips, load_text_features, load_video_features
    from evenreel.features.manifest import FeatureSet, Manifest, feature_folder, read_manifest
    from evenreel.features.settings import ClipAside, FeatureReport, FeatureSettings
    from evenreel.features.stored.clips import StoredClips
    from evenreel.features.stored.store import StoredSettings, store_features

__all__ = [
    "ClipAside",
    "FeatureReport",
    "FeatureSet",
    "FeatureSettings",
    "FoundClips",
    "Manifest",
    "StoredClips",
    "StoredSettings",
    "compute_features",
    "feature_folder",
    "find_clips",
    "load_text_features",
    "load_video_features",
    "read_manifest",
    "store_features",
]

_MODULE_OF = {
    "compute": ("compute_features",),
    "load": ("FoundClips", "find_clips", "load_text_features", "load_video_features"),
    "manifest": ("FeatureSet", "Manifest", "feature_folder", "read_manifest"),
    "settings": ("ClipAside", "FeatureReport", "FeatureSettings"),
    "stored.store": ("StoredSettings", "store_features"),
    "stored.clips": ("StoredClips",),
}


def __getattr__(name: str) -> Any:
    """Import a part when it is first used: a library reads shards and nothing else."""
    import importlib

    for module, names in _MODULE_OF.items():
        if name in names:
            return getattr(importlib.import_module(f"evenreel.features.{module}"), name)
    raise AttributeError(f"module 'evenreel.features' has no attribute {name!r}")
