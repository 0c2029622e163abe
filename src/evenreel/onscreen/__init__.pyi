from .reader import TextReader as TextReader, VideoText as VideoText
from .scene import TextSettings as TextSettings
