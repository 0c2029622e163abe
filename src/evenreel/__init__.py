"""Text-to-video retrieval you can trust."""

__version__ = "0.1.0"
