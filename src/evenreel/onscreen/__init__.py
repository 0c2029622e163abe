"""On-screen text: words with their place and time, and signs followed over time."""

from evenreel.onscreen.reader import TextReader, VideoText
from evenreel.onscreen.settings import TextSettings

__all__ = ["TextReader", "TextSettings", "VideoText"]
