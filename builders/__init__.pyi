from .api import build as build
from .api import load as load
from .api import with_text as with_text
