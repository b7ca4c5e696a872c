"""Rows of a public data set, from the Hub or a folder that holds the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dwise_predict.errors import WorkloadError
from dwise_predict.hub.address import Address
from dwise_predict.hub.client import Access, download
from dwise_predict.workload.paper.manifest import Source

DEFAULT_ACCESS = Access()
"""The token of this machine and the Hub's own cache."""

_NO_QUOTES = 3  # csv.QUOTE_NONE


@dataclass(frozen=True)
class Rows:
    """Rows of one source, and the commit they come from (None: of a folder)."""

    rows: Sequence[Mapping[str, Any]]
    commit: str | None


def load_rows(source: Source, folder: Path | None = None, access: Access = DEFAULT_ACCESS) -> Rows:
    """Download what ``source`` names, or read it in ``folder``, and open it with ``datasets``.

    Raises:
        HubError: repository, revision or network cannot be had; the sentence says which.
        WorkloadError: a file is missing or cannot be read, or ``datasets`` is not installed.
    """
    if folder is not None:
        return Rows(_open(source, folder), None)
    snapshot = download(
        Address(source.repo, source.revision),
        "dataset",
        source.files,
        lambda commit, sizes: _require_files(source, commit, sizes),
        access,
    )
    return Rows(_open(source, snapshot.folder), snapshot.commit)


def _require_files(source: Source, commit: str, sizes: Mapping[str, int | None]) -> None:
    missing = [name for name in source.files if name not in sizes]
    if missing:
        raise WorkloadError(
            f"the data set {commit} has no {', '.join(missing)}: its files were renamed; "
            "name them in a copy of the manifest (--manifest)"
        )


def _open(source: Source, folder: Path) -> Sequence[Mapping[str, Any]]:
    try:
        from datasets import disable_progress_bars, load_dataset
        from datasets.exceptions import DatasetsError
    except ImportError as error:
        raise WorkloadError(
            "public data sets are read with datasets: pip install 'dwise-predict[train]'"
        ) from error
    missing = [name for name in source.files if not (folder / name).is_file()]
    if missing:
        raise WorkloadError(f"{folder} has no {', '.join(missing)}")
    paths = [str(folder / name) for name in source.files]
    disable_progress_bars()  # a part of the workload is one step of our own
    builder: str = source.format
    options: dict[str, Any] = {}
    if source.format == "tsv":
        builder = "csv"
        options = {"sep": "\t", "names": list(source.columns or ()), "quoting": _NO_QUOTES}
    try:
        rows: Sequence[Mapping[str, Any]] = load_dataset(
            builder, data_files=paths, split="train", **options
        )
    except (DatasetsError, OSError, ValueError) as error:
        raise WorkloadError(f"{folder} cannot be read: {' '.join(str(error).split())}") from error
    return rows
