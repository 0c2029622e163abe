"""What is said in a clip, with times: read from subtitles beside and inside the video, or recognised in its sound."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
