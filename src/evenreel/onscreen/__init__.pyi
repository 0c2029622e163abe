from .reader import TextReader as TextReader, VideoText as VideoText
from .settings import TextSettings as TextSettings
