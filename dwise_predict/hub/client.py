"""The Hugging Face Hub as two operations: download some files, upload some files.

Both go through ``huggingface_hub``, which brings the cache, the token, retries within a transfer
and Xet. Here sizes are checked before anything is downloaded, and every failure becomes one
sentence that says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dwise_predict.errors import HubError
from dwise_predict.hub.address import Address, is_repo, is_revision

RepoType = Literal["model", "dataset"]
_UNAUTHORISED, _FORBIDDEN, _MISSING, _SERVER_ERROR = 401, 403, 404, 500
_WRONG_TOKEN = "Invalid credentials"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """Files of one commit, in the Hub's cache.

    Attributes:
        folder: where they lie.
        repo: ``ORG/NAME``.
        commit: hash of the commit.
    """

    folder: Path
    repo: str
    commit: str

    def __str__(self) -> str:
        return f"{self.repo}@{self.commit}"


@dataclass(frozen=True)
class Commit:
    """A commit that was made: its URL and its hash."""

    url: str
    commit: str


@dataclass(frozen=True)
class Access:
    """How to reach the Hub.

    Attributes:
        token: None: the one of ``hf auth login`` or HF_TOKEN; False: none.
        cache_dir: None: the Hub's default.
        local_files_only: use the cache alone.
    """

    token: str | bool | None = None
    cache_dir: Path | str | None = None
    local_files_only: bool = False


def download(
    address: Address,
    kind: RepoType,
    names: Sequence[str],
    check: Callable[[str, Mapping[str, int | None]], None],
    access: Access,
    force: bool = False,
) -> Snapshot:
    """Download files of a repository into the cache; files of the same commit are kept there.

    When the Hub cannot be reached, what is in the cache is used, with a warning.

    Args:
        address: repository and revision.
        kind: of repository.
        names: files to download, as far as they are there.
        check: is given the commit and the size in bytes of every file (None: unknown) by name;
            raises a DwiseError when this is not what it should be.
        access: token, cache and whether to go to the Hub at all.
        force: download again what is in the cache.

    Raises:
        HubError: the repository, revision or Hub cannot be had, or the transfer failed.
    """
    from huggingface_hub import snapshot_download

    _check_address(address)
    with _told(address, kind, access):
        if access.local_files_only:
            return _cached(address, kind, names, access)
        try:
            commit, sizes = _listing(address, kind, access)
        except Exception as error:
            if not _is_unreachable(error):
                raise
            snapshot = _cached_or_none(address, kind, names, access)
            if snapshot is None:
                raise
            _log.warning("the Hub cannot be reached, so %s comes from the cache", snapshot)
            return snapshot
        check(f"{address.repo}@{commit}", sizes)
        folder = snapshot_download(
            address.repo,
            repo_type=kind,
            # By its name, so that the cache knows it: offline, the same address works.
            revision=address.revision,
            allow_patterns=list(names),
            token=access.token,
            cache_dir=access.cache_dir,
            force_download=force,
        )
    found = Snapshot(Path(folder), address.repo, Path(folder).name)
    if found.commit != commit:
        raise HubError(f"{address} changed while it was downloaded; try again")
    return found


def upload(
    repo: str,
    kind: RepoType,
    files: Mapping[str, bytes],
    message: str,
    *,
    private: bool | None = None,
    branch: str | None = None,
    token: str | bool | None = None,
    remove: Sequence[str] = (),
) -> Commit:
    """Publish files in one commit; repository and branch are made where missing.

    Large files that a broken try has already uploaded are not sent again. Files called as in
    ``remove`` that an earlier commit left are taken away in the same commit.

    Raises:
        HubError: the Hub refuses or cannot be reached.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token

    address = Address(repo, branch)
    _check_address(address)
    if token is False or (not isinstance(token, str) and get_token() is None):
        raise HubError(
            f"publishing {repo} needs a token: log in with 'hf auth login' or set HF_TOKEN"
        )
    api = HfApi(token=token)
    with _told(address, kind, Access(token=token)):
        api.create_repo(repo, repo_type=kind, private=private, exist_ok=True)
        if branch is not None:
            api.create_branch(repo, repo_type=kind, branch=branch, exist_ok=True)
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=content)
            for name, content in files.items()
        ]
        present = api.list_repo_files(repo, repo_type=kind, revision=branch) if remove else []
        operations += [CommitOperationDelete(name) for name in remove if name in present]
        done = api.create_commit(
            repo, operations, commit_message=message, repo_type=kind, revision=branch
        )
    return Commit(str(done.commit_url), str(done.oid))


def _check_address(address: Address) -> None:
    if not is_repo(address.repo):
        raise HubError(f"{address.repo!r} is no Hub repository: expected ORG/NAME")
    if address.revision is not None and not is_revision(address.revision):
        raise HubError(f"{address.revision!r} is no branch, tag or commit of {address.repo}")


def _listing(address: Address, kind: RepoType, access: Access) -> tuple[str, dict[str, int | None]]:
    """Commit that the address points to, and the size of every file there."""
    from huggingface_hub import HfApi

    info = HfApi(token=access.token).repo_info(
        address.repo, repo_type=kind, revision=address.revision, files_metadata=True
    )
    # Kernels, which this library never asks for, have no files.
    siblings = getattr(info, "siblings", None) or []
    sizes = {file.rfilename: file.size for file in siblings}
    return str(info.sha), sizes


def _cached(address: Address, kind: RepoType, names: Sequence[str], access: Access) -> Snapshot:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        address.repo,
        repo_type=kind,
        revision=address.revision,
        cache_dir=access.cache_dir,
        allow_patterns=list(names),
        local_files_only=True,
    )
    return Snapshot(Path(folder), address.repo, Path(folder).name)


def _cached_or_none(
    address: Address, kind: RepoType, names: Sequence[str], access: Access
) -> Snapshot | None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _cached(address, kind, names, access)
    except LocalEntryNotFoundError:
        return None


def _transport_errors() -> tuple[type[Exception], ...]:
    """What the HTTP library under ``huggingface_hub`` raises when there is no answer.

    It was requests, then httpx, then httpx2: the base class of the Hub's own error is the
    library's, whichever it is. Those of requests are OSErrors.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (HfHubHTTPError.__bases__[0], OSError)


def _is_unreachable(error: Exception) -> bool:
    """No answer, or an answer that says the Hub itself is broken."""
    status = _status(error)
    if status is not None:
        return status >= _SERVER_ERROR
    return isinstance(error, _transport_errors())


def _status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


@contextmanager
def _told(address: Address, kind: RepoType, access: Access) -> Iterator[None]:
    """Turn what ``huggingface_hub`` raises into a HubError."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    known: tuple[type[Exception], ...] = (
        *_transport_errors(),
        HfHubHTTPError,
        HFValidationError,
        ValueError,  # a malformed answer
        RuntimeError,  # an upload that failed, with its cause
    )
    try:
        yield
    except known as error:
        raise HubError(_sentence(error, address, kind, access)) from error


def _sentence(error: Exception, address: Address, kind: RepoType, access: Access) -> str:
    from huggingface_hub import constants, errors

    endpoint = constants.ENDPOINT
    what = f"the {'data set' if kind == 'dataset' else 'repository'} {address.repo}"
    chain = list(_chain(error))
    cause = chain[-1]
    if isinstance(error, errors.LocalTokenNotFoundError):
        return "there is no token of the Hub: log in with 'hf auth login' or set HF_TOKEN"
    if isinstance(error, errors.RevisionNotFoundError):
        known = _revisions(address, kind, access)
        return f"{what} has no revision {address.revision or 'main'!r}{known}"
    if isinstance(error, errors.GatedRepoError):
        return f"{what} is gated: ask for access at {endpoint}/{address.repo}, then try again"
    if isinstance(error, errors.LocalEntryNotFoundError) and access.local_files_only:
        return (
            f"{address} is not complete in the cache, and the Hub must not be asked "
            "(local files only): get it once while online with: dwise pull "
            f"{'--profile ' if kind == 'dataset' else ''}{address}"
        )
    if isinstance(cause, errors.OfflineModeIsEnabled):
        return (
            f"{address} is not complete in the cache, and HF_HUB_OFFLINE forbids to ask the Hub: "
            "unset it and try again"
        )
    status = next((status for link in chain if (status := _status(link))), None)
    if status == _UNAUTHORISED and _WRONG_TOKEN in str(cause):
        return (
            f"{endpoint} does not know your token: log in again with 'hf auth login' or set "
            "HF_TOKEN"
        )
    if isinstance(error, errors.RepositoryNotFoundError) or status in (_MISSING, _UNAUTHORISED):
        return (
            f"{what} does not exist at {endpoint}, or is private and you may not read it: check "
            "the name, and log in with 'hf auth login' or set HF_TOKEN"
        )
    if status == _FORBIDDEN:
        return (
            f"{endpoint} refuses {what} (HTTP {status}): your token has no right to do this there; "
            "ask for the right, or use another name or token (HF_TOKEN)"
        )
    if status is not None:
        return f"{endpoint} answered HTTP {status} about {what}: {_first_line(cause)}; try again"
    if "onsistency check failed" in str(error):
        return (
            f"the download of {address} was cut short ({_first_line(error)}); run the command "
            "again, complete files are kept"
        )
    if any(isinstance(link, _transport_errors()) for link in chain) and not _is_local(cause):
        return (
            f"the connection to {endpoint} failed while asking for {address} "
            f"({type(cause).__name__}: {_first_line(cause)}); check the network and run the "
            "command again, complete files are kept"
        )
    return f"{address}: {_first_line(error)}"


def _is_local(error: BaseException) -> bool:
    """A full disk or a forbidden folder, not the network."""
    return isinstance(error, OSError) and error.filename is not None


def _chain(error: BaseException) -> Iterator[Exception]:
    """An error and what caused it, down to the answer of the Hub where there was one."""
    link: BaseException | None = error
    while isinstance(link, Exception):
        yield link
        link = None if hasattr(link, "response") else link.__cause__


def _revisions(address: Address, kind: RepoType, access: Access) -> str:
    """Which revisions there are, when the Hub says so."""
    from huggingface_hub import HfApi

    try:
        refs = HfApi(token=access.token).list_repo_refs(address.repo, repo_type=kind)
    except _transport_errors():  # the answer that matters is the one already given
        return ""
    names = [ref.name for ref in (*refs.branches, *refs.tags)]
    return f"; it has: {', '.join(sorted(names)[:20])}" if names else ""


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
