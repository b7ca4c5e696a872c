"""What the columns of a profile may hold, beyond their types."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dwise_predict.profile.encoding import Hidden
from dwise_predict.validation import shortened

MAX_ROUNDS = 2**20
"""Most denoising rounds of one request: hours, and curves over rounds still fit into memory."""
FINISH_REASONS = ("eos", "budget", "abort")

_LEAST = {
    "words": 0,
    "newlines": 0,
    "prompt_tokens": 0,
    "prompt_blocks": 0,
    "budget_tokens": 1,
    "output_tokens": 0,
    "output_blocks": 0,
    "rounds": 1,
    "first_block_masked": 0,
}
_ROUND_LEAST = {
    "index": 0,
    "wall_ms": 0,
    "slots": 1,
    "prefill_slots": 0,
    "kv_tokens": 0,
    "residents": 0,
    "waiting": 0,
}
_Rows = npt.NDArray[np.bool_]


def wrong_request(requests: pa.Table, hidden: Hidden) -> str | None:
    """What is wrong with the first request that cannot be, None if all can be.

    ``hidden`` is float16 ``[n, hidden]``, one row for each of ``requests``.
    """
    names = requests["request_id"].to_pylist()
    for column, least in _LEAST.items():
        if (row := _first(pc.less(requests[column], least))) is not None:
            value = requests[column][row].as_py()
            return f"request {names[row]!r}: {column} is {value}, at least {least} is possible"
    if (row := _first(_wrong_blocks(requests))) is not None:
        rounds, blocks = (requests[name][row].as_py() for name in ("rounds", "rounds_per_block"))
        count = requests["output_blocks"][row].as_py()
        return (
            f"request {names[row]!r} has {rounds} rounds in {count} output blocks, by block "
            f"{shortened(blocks)}"
        )
    rules = [
        (pc.greater(requests["rounds"], MAX_ROUNDS), f"rounds is above {MAX_ROUNDS}"),
        (
            pc.greater(requests["output_tokens"], requests["budget_tokens"]),
            "output_tokens is above budget_tokens",
        ),
        (
            pc.invert(pc.is_in(requests["finish_reason"], pa.array(FINISH_REASONS))),
            f"finish_reason is none of {', '.join(FINISH_REASONS)}",
        ),
        (_wrong_bins(requests), "token_bins has an empty entry"),
        (_not_finite(requests), "a time is not finite"),
        (~np.isfinite(hidden).all(axis=1), "its hidden mean is not finite"),
        (_repeated(names), "this id was there before"),
    ]
    for wrong, finding in rules:
        if (row := _first(wrong)) is not None:
            return f"request {names[row]!r}: {finding}"
    return None


def wrong_round(rounds: pa.Table) -> str | None:
    """What is wrong with the first round that cannot be, None if all can be."""
    for column, least in _ROUND_LEAST.items():
        # NaN is not at least anything.
        if (row := _first(pc.invert(pc.greater_equal(rounds[column], least)))) is not None:
            value = rounds[column][row].as_py()
            return f"round {row}: {column} is {value}, at least {least} is possible"
    if (row := _first(pc.greater(rounds["prefill_slots"], rounds["slots"]))) is not None:
        return f"round {row}: prefill_slots is above slots"
    for column in ("start_s", "wall_ms"):
        if (row := _first(pc.invert(pc.is_finite(rounds[column])))) is not None:
            return f"round {row}: {column} is not finite"
    return None


def _first(wrong: pa.ChunkedArray | _Rows) -> int | None:
    """The first row that is True; a null counts as False."""
    rows = wrong if isinstance(wrong, np.ndarray) else pc.fill_null(wrong, False).to_numpy()
    return int(rows.argmax()) if rows.any() else None


def _wrong_blocks(requests: pa.Table) -> _Rows:
    """Requests whose blocks are not output_blocks many of at least one round, rounds together."""
    blocks = requests["rounds_per_block"].combine_chunks()
    flat = blocks.values.to_numpy(zero_copy_only=False)[_span(blocks)]
    counts = np.diff(blocks.offsets.to_numpy())
    owner = np.repeat(np.arange(len(blocks)), counts)
    # In float, a null is NaN.
    sums = np.bincount(owner, weights=flat, minlength=len(blocks))
    short = np.bincount(owner, weights=~(flat >= 1), minlength=len(blocks)) > 0
    wrong: _Rows = (
        short
        | (sums != requests["rounds"].to_numpy())
        | (counts != requests["output_blocks"].to_numpy())
    )
    return wrong


def _wrong_bins(requests: pa.Table) -> _Rows:
    bins = requests["token_bins"].combine_chunks()
    empty = bins.values.is_null().to_numpy(zero_copy_only=False)[_span(bins)]
    owner = np.repeat(np.arange(len(bins)), np.diff(bins.offsets.to_numpy()))
    wrong: _Rows = np.bincount(owner, weights=empty, minlength=len(bins)) > 0
    return wrong


def _span(lists: pa.ListArray) -> slice:
    """Where the values of ``lists`` lie in its flat array."""
    return slice(lists.offsets[0].as_py(), lists.offsets[-1].as_py())


def _not_finite(requests: pa.Table) -> _Rows:
    wrong = np.zeros(requests.num_rows, dtype=np.bool_)
    for name in requests.column_names:
        if name.endswith("_s"):
            finite = pc.fill_null(pc.is_finite(requests[name]), True)
            wrong |= ~finite.to_numpy()
    return wrong


def _repeated(names: list[str]) -> _Rows:
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    return np.array([first[name] != row for row, name in enumerate(names)], dtype=np.bool_)
