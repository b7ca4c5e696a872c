"""Counts tokens as the target model's tokenizer does, without the model's own code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dwise_predict.errors import WorkloadError
from dwise_predict.hub.address import Address
from dwise_predict.hub.client import Access, download
from dwise_predict.recipe import ModelSettings
from dwise_predict.workload.paper.needles import CountTokens
from dwise_predict.workload.paper.sources import DEFAULT_ACCESS

_FILE = "tokenizer.json"


def token_counter(model: ModelSettings, access: Access = DEFAULT_ACCESS) -> CountTokens:
    """A function that counts the tokens of a text, special tokens left out.

    Raises:
        HubError: the model's repository cannot be had.
        WorkloadError: there is no tokenizer.json, or it cannot be read.
    """
    path = _folder(model, access) / _FILE
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise WorkloadError(
            "prompts are measured with tokenizers: pip install 'dwise-predict[train]'"
        ) from error
    if not path.is_file():
        raise WorkloadError(f"{path} is missing: prompts are measured with a fast tokenizer")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust extension raises plain Exception
        raise WorkloadError(f"{path} is no tokenizer: {error}") from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _folder(model: ModelSettings, access: Access) -> Path:
    if model.repo == "builtin:tiny":
        from dwise_predict.tiny import checkpoint_dir

        return checkpoint_dir()
    if (folder := Path(model.repo).expanduser()).is_dir():
        return folder

    def check(commit: str, sizes: Mapping[str, int | None]) -> None:
        if _FILE not in sizes:
            raise WorkloadError(f"{commit} has no {_FILE}, with which prompts are measured")

    return download(Address(model.repo, model.revision), "model", [_FILE], check, access).folder
