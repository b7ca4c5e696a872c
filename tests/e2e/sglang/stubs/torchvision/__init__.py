"""Import-only stand-in for torchvision: the tests serve text models only."""

import import_only

__version__ = "0.28.0"
__getattr__ = import_only.register(__name__)
