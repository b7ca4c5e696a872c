"""Packages that SGLang imports at module top and never calls in the diffusion path on a CPU.

Everything below such a package can be imported, inherited from, subscripted and used as a
decorator; calling anything for its effect raises StubCalledError, so that a test whose result would
depend on a stand-in fails.
"""

import importlib.abc
import importlib.machinery
import sys
import types

CALLS = []
"""Names of everything that was called although it does not exist here."""


class StubCalledError(RuntimeError):
    """Something that exists only as a name was called."""


def refuse(name):
    CALLS.append(name)
    raise StubCalledError(f"{name} is a stand-in on this machine and must not be called")


class Kernel:
    """A decorated GPU kernel: may be defined, not launched."""

    def __init__(self, function):
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__
        self.fn = function

    def __getitem__(self, grid):
        refuse(self.__name__)

    def __call__(self, *args, **kwargs):
        refuse(self.__name__)


class PlaceholderType(type):
    """Classes below a stand-in package: inherited from and named, not built."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return f"{cls.__qualname__}.{name}"

    def __call__(cls, *args, **kwargs):
        if cls.__dict__.get("refused"):
            refuse(cls.__qualname__)
        return super().__call__(*args, **kwargs)


class Placeholder(types.ModuleType):
    """A module or function inside a stand-in package."""

    decorators = frozenset()
    harmless = frozenset()

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if not name[0].isupper():
            return importlib.import_module(full)
        value = make_class(full, full not in self.harmless)
        setattr(self, name, value)
        return value

    def __call__(self, *args, **kwargs):
        if self.__name__ in self.decorators:
            if len(args) == 1 and callable(args[0]) and not kwargs:
                return Kernel(args[0])
            return Kernel
        if self.__name__ in self.harmless:
            return self
        refuse(self.__name__)


def make_class(full, refused):
    """A class called ``full``; an exception when its name says so."""
    if full.endswith(("Error", "OutOfResources")):
        return type(full, (Exception,), {})

    def accept(self, *args, **kwargs):
        """Subclasses pass on whatever their real base would take."""

    return PlaceholderType(full, (), {"refused": refused, "__init__": accept})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes a Placeholder of every name below a registered package."""

    def __init__(self):
        self.packages = {}

    def find_spec(self, fullname, path=None, target=None):
        package, _, rest = fullname.partition(".")
        if rest and package in self.packages:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return self.packages[spec.name.partition(".")[0]](spec.name)

    def exec_module(self, module):
        """Nothing to run."""


FINDER = Finder()
sys.meta_path.insert(0, FINDER)


def register(package, decorators=(), harmless=()):
    """Answer every name below ``package``; returns its module-level ``__getattr__``."""
    FINDER.packages[package] = type(
        "Placeholder",
        (Placeholder,),
        {"decorators": frozenset(decorators), "harmless": frozenset(harmless)},
    )

    root = FINDER.packages[package](package)
    return root.__getattr__
