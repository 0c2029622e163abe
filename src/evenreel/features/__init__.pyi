from .compute import compute_features as compute_features
from .load import (
    FoundClips as FoundClips,
    find_clips as find_clips,
    load_text_features as load_text_features,
    load_video_features as load_video_features,
)
from .manifest import (
    FeatureReport as FeatureReport,
    FeatureSet as FeatureSet,
    Manifest as Manifest,
    feature_folder as feature_folder,
    read_manifest as read_manifest,
)
from .pool import SetAside as SetAside
from .settings import FeatureSettings as FeatureSettings
from .stored import (
    StoredClips as StoredClips,
    StoredSettings as StoredSettings,
    store_features as store_features,
)
