from .loading import load_encoder as load_encoder
