"""What verbs about bundles have in common: how a bundle is named and the Hub is reached."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from dwise_predict.bundle import PredictorBundle
    from dwise_predict.hub.client import Access

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def hub_options(verb: _Verb) -> _Verb:
    """Add the flags that say how to reach the Hub."""
    verb = click.option("--offline", is_flag=True, help="Use the Hub's cache alone.")(verb)
    return click.option("--cache-dir", metavar="DIR", help="Cache of the Hub.  [default: its own]")(
        verb
    )


def hub_access(cache_dir: str | None, offline: bool) -> Access:
    """The flags of :func:`hub_options`; progress bars are for terminals."""
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from dwise_predict.hub.client import Access

    if not sys.stderr.isatty():
        disable_progress_bars()
    return Access(cache_dir=cache_dir, local_files_only=offline)


PROFILE_NAME = "DIR|hub:ORG/NAME"
"""How a profile is named."""
_HUB = "hub:"


@dataclass(frozen=True)
class ProfilePlace:
    """A profile folder on this disk.

    Attributes:
        folder: where it lies.
        name: of its run folder or repository, for folders that are made of it.
        repo: ``ORG/NAME@commit`` when it comes from the Hub.
    """

    folder: Path
    name: str
    repo: str | None

    def __str__(self) -> str:
        return self.repo or str(self.folder)


def find_profile(name: str, access: Access) -> ProfilePlace:
    """The profile that a person calls ``name``: a folder, a run folder or ``hub:ORG/NAME``.

    Raises:
        HubError: it cannot be had from the Hub.
        ProfileError: what is on the Hub is damaged.
    """
    from dwise_predict.hub.address import parse_address
    from dwise_predict.profile_repo import fetch_profile
    from dwise_predict.run_folder import RunFolder

    if name.startswith(_HUB):
        found = fetch_profile(parse_address(name.removeprefix(_HUB)), access)
        return ProfilePlace(found.folder, found.repo.partition("/")[2], str(found))
    inner = RunFolder(Path(name)).profile
    folder = inner if inner.is_dir() else Path(name)
    return ProfilePlace(folder, folder.resolve().parent.name, None)


def open_bundle(name: str, access: Access) -> PredictorBundle:
    """Load and check the bundle that a person calls ``name``.

    Raises:
        BundleError: there is none, or it is damaged.
        HubError: it cannot be had from the Hub.
    """
    from dwise_predict.bundle import PredictorBundle
    from dwise_predict.errors import BundleError
    from dwise_predict.run_folder import RunFolder
    from dwise_predict.zoo import read_index

    run = RunFolder(Path(name))
    # A bare name of the zoo is the zoo's, whatever folders there are.
    of_zoo = any(entry.name == name for entry in read_index())
    if os.path.isdir(run.bundle) and not of_zoo:
        raise BundleError(f"{name} is a run folder; its bundle is {run.bundle}")
    repo, _, revision = (name, "", "") if os.path.exists(name) else name.partition("@")
    return PredictorBundle.from_pretrained(
        repo,
        revision=revision or None,
        local_files_only=access.local_files_only,
        cache_dir=access.cache_dir,
    )
