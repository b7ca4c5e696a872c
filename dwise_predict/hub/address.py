"""Addresses of Hub repositories as people write them: ``ORG/NAME`` and ``ORG/NAME@revision``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dwise_predict.errors import HubError

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_MAX_PART = 96


@dataclass(frozen=True)
class Address:
    """A repository, and a branch, tag or commit of it; ``revision`` None is main."""

    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        return self.repo if self.revision is None else f"{self.repo}@{self.revision}"


def is_repo(text: str) -> bool:
    """Whether ``text`` has the form ``ORG/NAME``."""
    return (
        _REPO.fullmatch(text) is not None
        and all(len(part) <= _MAX_PART for part in text.split("/"))
        and "--" not in text
        and ".." not in text
        and not text.endswith((".git", ".", "-"))
    )


def parse_address(text: str) -> Address:
    """Split ``ORG/NAME[@revision]``; raises HubError on anything else."""
    repo, at, revision = text.partition("@")
    if not is_repo(repo):
        raise HubError(
            f"{text!r} is no Hub repository: expected ORG/NAME or ORG/NAME@REVISION, of letters, "
            "digits, '-', '_' and '.'"
        )
    if at and not is_revision(revision):
        raise HubError(f"{text!r}: {revision!r} is no branch, tag or commit")
    return Address(repo, revision if at else None)


def is_revision(text: str) -> bool:
    """Whether ``text`` can be the name of a branch or tag, or a commit."""
    return _REVISION.fullmatch(text) is not None and ".." not in text
