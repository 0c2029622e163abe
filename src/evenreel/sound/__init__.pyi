from .encoder import SoundEncoder as SoundEncoder
from .loading import load_sound_encoder as load_sound_encoder
from .reader import ClipSounds as ClipSounds, read_sounds as read_sounds
from .windows import SoundWindow as SoundWindow, SoundWindows as SoundWindows, cut_windows as cut_windows
