"""What is said in a clip, with times: read from subtitles beside and inside the video, or recognised in its sound."""

from evenreel.extras import offered

__getattr__, __dir__, __all__ = offered(__name__, __file__)
