"""Errors meant for people: they name the file, field or flag, what was expected and what to do."""

from __future__ import annotations


class DwiseError(Exception):
    """Base class of every error the library raises about its input or environment."""


class RecipeError(DwiseError):
    """A recipe, a dotted override or a model name is wrong."""


class WorkloadError(DwiseError):
    """A workload file or its content is wrong."""


class ProfileError(DwiseError):
    """A profile folder is damaged, incomplete or of another kind than expected."""


class BundleError(DwiseError):
    """A bundle folder is damaged, unsafe or of an unknown format."""


class EngineError(DwiseError):
    """A model cannot be served: checkpoint, context length or device."""


class RunError(DwiseError):
    """A run folder cannot be created, continued or read."""


class ReportError(DwiseError):
    """A report cannot be made of a run folder."""
