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


class BundleVersionError(BundleError):
    """A bundle is of a format version that this library does not read."""


class IncompatibleBundleError(BundleError):
    """A bundle is sound, but its predictions mean nothing for what is going to be served."""


class HubError(DwiseError):
    """Something cannot be had from, or published on, the Hugging Face Hub."""


class EngineError(DwiseError):
    """A model cannot be served: checkpoint, context length or device."""


class RunError(DwiseError):
    """A run folder cannot be created, continued or read."""


class ReportError(DwiseError):
    """A report cannot be made of a run folder."""


class ResultsError(DwiseError):
    """A results folder cannot be written, is damaged or holds something else."""


class SimulationError(DwiseError):
    """A simulation is asked for that makes no sense, or its trace file is wrong."""


class BaselineError(DwiseError):
    """A learned baseline cannot be trained, loaded or used."""


class ExperimentError(DwiseError):
    """An experiment is asked for that does not exist or cannot be run, or its folder is wrong."""
