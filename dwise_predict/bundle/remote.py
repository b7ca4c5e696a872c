"""From the name of a bundle to its folder on this disk, and from its files to the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dwise_predict.bundle.schema import CONFIG_FILE, FILES, FILES_1_0
from dwise_predict.bundle.store import largest
from dwise_predict.errors import BundleError, HubError
from dwise_predict.hub.address import Address, is_repo
from dwise_predict.hub.client import Access, Commit, download, upload
from dwise_predict.validation import shortened, unknown_name
from dwise_predict.zoo import bundled_folder, read_index

_PREFIX = "dwise-"


@dataclass(frozen=True)
class Place:
    """A bundle folder on this disk.

    Attributes:
        folder: where it lies.
        source: for people: the folder, or ``ORG/NAME@commit``.
        remote: where on the Hub it comes from; None when it does not.
    """

    folder: Path
    source: str
    remote: Address | None = None


def locate_bundle(
    name: Path | str, revision: str | None, access: Access, force: bool = False
) -> Place:
    """Find a bundle by its zoo name, folder or ``ORG/NAME``; the latter is downloaded.

    ``force`` downloads files again that are in the cache.

    Raises:
        BundleError: nothing has this name.
        HubError: the repository cannot be had, or is no bundle.
    """
    entry = {entry.name: entry for entry in read_index()}.get(str(name))
    if isinstance(name, str) and entry is not None:
        if entry.shipped:
            _refuse_revision(name, revision)
            return Place(bundled_folder(name), f"{name} (of this package)")
        if entry.bundle is None:
            raise BundleError(
                f"no bundle of {name} is published yet: train one with 'dwise train' "
                "(see 'dwise zoo')"
            )
        return _from_hub(Address(entry.bundle, revision or entry.revision), access, force)
    folder = Path(name)
    try:
        is_there = folder.exists()
    except OSError as error:
        raise BundleError(
            f"cannot look up {shortened(str(name))}: {error.strerror or error}"
        ) from error
    if is_there:
        _refuse_revision(str(name), revision)
        return Place(folder, str(name))
    if isinstance(name, str) and is_repo(name):
        return _from_hub(Address(name, revision), access, force)
    if "/" in str(name):
        raise BundleError(f"{name} is neither a folder nor a Hub repository (ORG/NAME)")
    names = [entry.name for entry in read_index() if entry.shipped or entry.bundle]
    raise BundleError(
        f"{unknown_name('bundle', str(name), names)}; or a folder, or a Hub repository (ORG/NAME)"
    )


def publish_bundle(
    files: Mapping[str, bytes],
    repo: str,
    message: str,
    private: bool | None,
    branch: str | None,
    token: str | bool | None,
) -> Commit:
    """Upload the files of a bundle in one commit.

    Raises:
        HubError: the name is not a bundle's, or the Hub refuses or cannot be reached.
    """
    name = repo.partition("/")[2]
    if is_repo(repo) and not name.startswith(_PREFIX):
        raise HubError(
            f"repositories of bundles are called {_PREFIX}<model>: push to "
            f"{repo.partition('/')[0]}/{_PREFIX}{name}"
        )
    return upload(repo, "model", files, message, private=private, branch=branch, token=token)


def _refuse_revision(name: str, revision: str | None) -> None:
    if revision is not None:
        raise BundleError(
            f"{name} is not on the Hub, so it has no revision {revision!r}; leave it out"
        )


def _from_hub(address: Address, access: Access, force: bool) -> Place:
    found = download(address, "model", (CONFIG_FILE, *FILES), _check_listing, access, force)
    return Place(found.folder, str(found), Address(found.repo, found.commit))


def _check_listing(source: str, sizes: Mapping[str, int | None]) -> None:
    """Refuse what is no bundle, and files that no bundle can have, before they are downloaded."""
    missing = [name for name in (CONFIG_FILE, *FILES_1_0) if name not in sizes]
    if missing:
        raise HubError(
            f"{source} is no predictor bundle: it has no {missing[0]} (it holds "
            f"{', '.join(sorted(sizes)[:5]) or 'nothing'}); bundles are called "
            f"ORG/{_PREFIX}<model>"
        )
    for name in (CONFIG_FILE, *FILES):
        size = sizes.get(name)
        if size is not None and size > largest(name):
            raise HubError(
                f"{source}: {name} has {size} bytes, a bundle's has at most {largest(name)}; it "
                "was not downloaded"
            )
