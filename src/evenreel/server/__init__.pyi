from .app import make_app as make_app, serve as serve
from .settings import ServeSettings as ServeSettings
