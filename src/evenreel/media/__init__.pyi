from .sampling import SamplingRule as SamplingRule, parse_rule as parse_rule
from .sound import SoundBlock as SoundBlock, open_sound as open_sound
from .video import Video as Video, open_video as open_video, probe as probe
