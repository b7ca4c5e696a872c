"""A profile folder as a data set repository of the Hub, and back.

The repository holds the profile's files as they are, so that training from it gives the bundle
that training from the folder gives. Only the column ``token_bins``, which tells of prompts and
which the admission features ``extended`` are trained on, is emptied unless prompts are asked for.
Beside the files lie the hidden means as Parquet, which ``datasets`` can load, a card, and the
prompts where they were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from dwise_predict.bundle.privacy import private_finding
from dwise_predict.errors import HubError, ProfileError
from dwise_predict.files import make_folder, write_folder
from dwise_predict.hub.address import Address
from dwise_predict.hub.client import Access, Commit, Snapshot, download, upload
from dwise_predict.profile import Profile, RunInfo, read_profile
from dwise_predict.profile.encoding import Hidden, digest, json_bytes, table_bytes
from dwise_predict.profile.records import (
    DATA_FILES,
    MAX_BYTES,
    MAX_JSON_BYTES,
    REQUESTS_FILE,
    ROUNDS_FILE,
    RUN_FILE,
)
from dwise_predict.workload.schema import Request

README_FILE = "README.md"
HIDDEN_TABLE = "first_round.parquet"
PROMPTS_TABLE = "prompts.parquet"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))


def repo_files(folder: Path, prompts: Sequence[Request] | None) -> dict[str, bytes]:
    """Return the files of the data set repository of a profile.

    Args:
        folder: a finished profile.
        prompts: its workload, to publish prompts, answers and token bins too; None leaves them out.

    Raises:
        ProfileError: the profile is damaged, is of other prompts, or would publish a local path,
            host or user name.
    """
    profile = read_profile(folder)
    if prompts is None:
        files = _without_tokens(profile, folder)
    else:
        files = {name: (folder / name).read_bytes() for name in (RUN_FILE, *DATA_FILES)}
    files[HIDDEN_TABLE] = table_bytes(_hidden_table(profile))
    if prompts is not None:
        files[PROMPTS_TABLE] = table_bytes(_prompts_table(profile, prompts))
    files[README_FILE] = _card(profile.run, with_prompts=prompts is not None).encode()
    texts = {name: files[name].decode() for name in (RUN_FILE, README_FILE)}
    labels = [profile.requests[name] for name in ("category", "dataset", "request_id")]
    texts[REQUESTS_FILE] = "\n".join(
        sorted({label for column in labels for label in column.to_pylist()})
    )
    finding = private_finding(texts)
    if finding is not None:
        raise ProfileError(finding)
    return files


def push_profile(
    files: Mapping[str, bytes],
    repo: str,
    message: str,
    private: bool | None = None,
    branch: str | None = None,
    token: str | bool | None = None,
) -> Commit:
    """Publish the files of :func:`repo_files` in one commit.

    Prompts that an earlier commit published are taken away unless they are published again.

    Raises:
        HubError: the Hub refuses or cannot be reached.
    """
    return upload(
        repo,
        "dataset",
        files,
        message,
        private=private,
        branch=branch,
        token=token,
        remove=[PROMPTS_TABLE] if PROMPTS_TABLE not in files else [],
    )


def fetch_profile(address: Address, access: Access) -> Snapshot:
    """Download a published profile; the snapshot's folder is a profile folder.

    Files in the cache that are not what run.json says are downloaded again, once.

    Raises:
        HubError: the repository cannot be had, or is no profile.
        ProfileError: it is damaged.
    """
    names = (RUN_FILE, *DATA_FILES)
    found = download(address, "dataset", names, _check_listing, access)
    try:
        read_profile(found.folder)
    except ProfileError:
        if access.local_files_only:
            raise
        pinned = Address(found.repo, found.commit)
        found = download(pinned, "dataset", names, _check_listing, access, force=True)
        try:
            read_profile(found.folder)
        except ProfileError as error:
            raise ProfileError(
                f"{found} is damaged on the Hub (it was downloaded twice), tell its owner: {error}"
            ) from error
    return found


def copy_profile(folder: Path, out: Path | str) -> Path:
    """Copy the files of a finished profile into the new folder ``out``.

    Raises:
        ProfileError: the place is taken, or cannot be written.
    """
    out = Path(out)
    if out.exists():
        raise ProfileError(f"{out} exists; choose another place")
    try:
        make_folder(out.parent)
        write_folder(out, {name: (folder / name).read_bytes() for name in (RUN_FILE, *DATA_FILES)})
    except OSError as error:
        raise ProfileError(f"cannot write {out}: {error.strerror or error}") from error
    return out


def _check_listing(source: str, sizes: Mapping[str, int | None]) -> None:
    missing = [name for name in (RUN_FILE, *DATA_FILES) if name not in sizes]
    if missing:
        raise HubError(
            f"{source} is no published profile: it has no {missing[0]} (it holds "
            f"{', '.join(sorted(sizes)[:5]) or 'nothing'})"
        )
    total = sum(sizes[name] or 0 for name in (RUN_FILE, *DATA_FILES))
    if total > MAX_BYTES:
        raise HubError(f"{source} has {total} bytes, too many for a profile; not downloaded")
    if (sizes[RUN_FILE] or 0) > MAX_JSON_BYTES:
        raise HubError(f"{source}: {RUN_FILE} has {sizes[RUN_FILE]} bytes; not downloaded")


def _without_tokens(profile: Profile, folder: Path) -> dict[str, bytes]:
    """The profile's files; ``token_bins``, which tells what prompts are about, is emptied."""
    files = {name: (folder / name).read_bytes() for name in (RUN_FILE, *DATA_FILES)}
    bins = profile.requests["token_bins"]
    if bins.null_count == len(bins):
        return files
    place = profile.requests.schema.get_field_index("token_bins")
    bare = profile.requests.set_column(place, "token_bins", pa.nulls(len(bins), bins.type))
    files[REQUESTS_FILE] = table_bytes(bare)
    hashes = profile.run.files | {REQUESTS_FILE: digest(files[REQUESTS_FILE])}
    files[RUN_FILE] = json_bytes(profile.run.model_copy(update={"files": hashes}))
    return files


def _hidden_table(profile: Profile) -> pa.Table:
    ids = profile.requests["request_id"].combine_chunks()
    return pa.table({"request_id": ids, "hidden": _lists(profile.hidden)})


def _lists(hidden: Hidden) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(hidden.reshape(-1)), hidden.shape[1])


def _prompts_table(profile: Profile, prompts: Sequence[Request]) -> pa.Table:
    by_id = {request.request_id: request for request in prompts}
    rows = []
    columns = profile.requests.select(["request_id", "prompt_sha256"]).to_pylist()
    for column in columns:
        request = by_id.get(column["request_id"])
        if request is None or request.prompt_sha256 != column["prompt_sha256"]:
            raise ProfileError(
                f"the workload is not the one that was profiled: request "
                f"{column['request_id']!r} differs"
            )
        messages = [message.model_dump() for message in request.messages]
        rows.append(
            {"request_id": request.request_id, "messages": messages, "answer": request.answer}
        )
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema(
        [("request_id", pa.string()), ("messages", pa.list_(message)), ("answer", pa.string())]
    )
    return pa.Table.from_pylist(rows, schema=schema)


def _card(run: RunInfo, with_prompts: bool) -> str:
    fingerprint, counts = run.fingerprint, run.counts
    parameters = ", ".join(f"{k} {v:g}" for k, v in fingerprint.algorithm_parameters.items())
    tables = {"requests": REQUESTS_FILE, "rounds": ROUNDS_FILE, "first_round": HIDDEN_TABLE}
    if with_prompts:
        tables["prompts"] = PROMPTS_TABLE
    return f"""---
{_front_matter(run, tables, with_prompts)}
---

# Denoising-round profile of {fingerprint.model}

{counts.requests} requests served first come, first served, in {counts.rounds} rounds, each labelled
with the denoising rounds it took, and the mean hidden state of its first round.

| | |
|---|---|
| model | {fingerprint.model}, revision {fingerprint.revision or "unknown"} |
| decoding | {fingerprint.algorithm} ({parameters}), blocks of {fingerprint.block_size} tokens |
| output budget | {fingerprint.budget_tokens} tokens |
| engine | {fingerprint.engine} {fingerprint.engine_version}, {fingerprint.dtype}, \
{run.engine.slots} slots |
| workload | {run.workload.name}, {run.workload.requests} requests |
| seed | {run.seed} |

## Use

```sh
dwise-train --profile hub:ORG/NAME
```

trains predictors from it, without a GPU. To study it:

```python
from datasets import load_dataset

requests = load_dataset("ORG/NAME", "requests", split="profile")  # one row a request
rounds = load_dataset("ORG/NAME", "rounds", split="profile")  # one row a round
hidden = load_dataset("ORG/NAME", "first_round", split="profile")  # rows in the order of requests
```

The column `split` of `requests` says which requests predictors are trained on (`train`) and which
are kept for evaluation (`eval`). Columns are described in dwise-predict's `docs/profile.md`.

## Prompts

{_prompts_text(with_prompts)}
"""


def _front_matter(run: RunInfo, tables: Mapping[str, str], with_prompts: bool) -> str:
    import yaml

    requests = run.counts.requests
    size = next((name for limit, name in _SIZES if requests < limit), "n>100K")
    data = {
        # Prompts keep the licences of where they come from, so there is none to state for all.
        **({} if with_prompts else {"license": "apache-2.0"}),
        "tags": ["dwise", "dwise-profile", "diffusion-language-model"],
        "size_categories": [size],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": "profile", "path": path}],
                **({"default": True} if name == "requests" else {}),
            }
            for name, path in tables.items()
        ],
    }
    return yaml.safe_dump(data, sort_keys=False).rstrip("\n")


def _prompts_text(with_prompts: bool) -> str:
    if with_prompts:
        return (
            "`prompts` holds prompts and expected answers. They keep the licences of the data "
            "sets named in the column `dataset` of `requests`."
        )
    return (
        "Prompts are not part of this data set, and the column `token_bins` is empty; "
        "`prompt_sha256` tells which requests share a prompt. "
        "Hidden means are computed from prompts and may reveal something about them."
    )
