"""The paper's workload: distinct prompts of public data sets and generated ones (Table 1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from dwise_predict.errors import HubError, WorkloadError
from dwise_predict.hub.client import Access
from dwise_predict.progress import SILENT, Progress
from dwise_predict.recipe import ModelSettings
from dwise_predict.workload.paper.manifest import Manifest, Needles, Source
from dwise_predict.workload.paper.needles import needle_item
from dwise_predict.workload.paper.readers import READERS, Item
from dwise_predict.workload.paper.sources import DEFAULT_ACCESS, load_rows
from dwise_predict.workload.paper.tokens import token_counter
from dwise_predict.workload.schema import Message, Request, Split, word_count
from dwise_predict.workload.similarity import NearDuplicates

_TRIES = 10
"""Prompts that are generated, at most, for one that is needed."""


@dataclass(frozen=True)
class Drawn:
    """What became of one part.

    ``alike`` rows resembled a prompt chosen before, ``unusable`` ones were no prompt. ``sha256``
    is that of the chosen prompts with their splits.
    """

    part: Source | Needles
    train: int
    eval: int
    commit: str | None
    alike: int
    unusable: int
    sha256: str


@dataclass(frozen=True)
class PaperWorkload:
    """Training requests, then evaluation requests, each in a seeded order."""

    requests: tuple[Request, ...]
    drawn: tuple[Drawn, ...]
    skipped: Mapping[str, str]
    """Parts left out, and why."""

    def describe_skipped(self) -> str:
        """One sentence on what is missing and what that leaves, empty when nothing is."""
        if not self.skipped:
            return ""
        return (
            f"left out: {', '.join(self.skipped)}; the other parts keep their numbers, so their "
            f"proportions stay and the workload has {len(self.requests)} requests"
        )


def shares(parts: Sequence[Source | Needles], split: Split, total: int) -> dict[str, int]:
    """Requests of each part in a split of ``total``, in the proportions of the manifest.

    Largest remainders get the odd requests, so that the counts add up.
    """
    full = {part.name: part.train if split == "train" else part.eval for part in parts}
    whole = sum(full.values())
    if whole == 0:
        return full
    counts = {name: total * count // whole for name, count in full.items()}
    by_remainder = sorted(full, key=lambda name: (-(total * full[name] % whole), name))
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def build_paper_workload(
    manifest: Manifest,
    model: ModelSettings,
    train: int,
    eval: int,
    seed: int,
    skip_missing: bool = False,
    folders: Mapping[str, Path] | None = None,
    access: Access = DEFAULT_ACCESS,
    progress: Progress = SILENT,
) -> PaperWorkload:
    """Draw the workload; no two prompts of it are the same or nearly so, in either split.

    Args:
        manifest: what to draw, and in which proportions.
        model: whose tokenizer measures the generated prompts.
        train: training requests.
        eval: evaluation requests.
        seed: of the choice, the generated prompts and the order.
        skip_missing: go on without what cannot be had. The other parts keep the number of
            requests they would have had, so their proportions stay, and the workload is smaller.
        folders: for parts by name, a folder with the data set's files instead of the Hub.
        access: to the Hub.
        progress: shows one step a part.

    Raises:
        WorkloadError: something is missing and ``skip_missing`` is off: all of it is listed.
    """
    known = NearDuplicates(manifest.similarity)
    trains, evals = shares(manifest.parts, "train", train), shares(manifest.parts, "eval", eval)
    requests: list[Request] = []
    drawn: list[Drawn] = []
    skipped: dict[str, str] = {}
    with progress.task("workload", len(manifest.parts)) as advance:
        for part in manifest.parts:
            asked = _Asked(part, trains[part.name], evals[part.name])
            rng = Random(f"dwise-paper-{seed}-{part.name}")
            try:
                pool, commit = _pool(asked, rng, model, (folders or {}).get(part.name), access)
                found = _distinct(asked, pool, known)
            except (HubError, WorkloadError) as error:
                skipped[part.name] = str(error)
            else:
                mine = _requests(asked, found.items)
                requests += mine
                drawn.append(
                    Drawn(
                        part,
                        asked.train,
                        asked.eval,
                        commit,
                        found.alike,
                        found.unusable,
                        _sha256(mine),
                    )
                )
            advance(1)
    if skipped and not (skip_missing and drawn):
        raise _missing(skipped, len(manifest.parts))
    return PaperWorkload(tuple(_ordered(requests, seed)), tuple(drawn), skipped)


@dataclass(frozen=True)
class _Asked:
    part: Source | Needles
    train: int
    eval: int

    @property
    def total(self) -> int:
        return self.train + self.eval


@dataclass(frozen=True)
class _Found:
    items: list[Item]
    alike: int
    unusable: int


def _pool(
    asked: _Asked, rng: Random, model: ModelSettings, folder: Path | None, access: Access
) -> tuple[Iterator[Item | None], str | None]:
    """Candidates in random order, None for those that are no prompt, and their commit."""
    part = asked.part
    if isinstance(part, Needles):
        count = token_counter(model, access)
        tries = range(_TRIES * asked.total)
        return (needle_item(rng, part.tokens, part.facts, count) for _ in tries), None
    rows = load_rows(part, folder, access)
    return _items(part, rows.rows, rng), rows.commit


def _items(source: Source, rows: Sequence[Mapping[str, Any]], rng: Random) -> Iterator[Item | None]:
    order = list(range(len(rows)))
    rng.shuffle(order)
    for index in order:
        row = rows[index]
        try:
            item = READERS[source.reader].read(row)
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise WorkloadError(
                f"row {index} of {source.repo} is not what reader {source.reader!r} expects "
                f"({type(error).__name__}: {error}); its columns are {', '.join(sorted(row))}"
            ) from error
        if item is not None and (
            not item.content.strip()
            or (source.max_words is not None and word_count(item.content) > source.max_words)
        ):
            item = None
        yield item


def _distinct(asked: _Asked, pool: Iterator[Item | None], known: NearDuplicates) -> _Found:
    """As many unlike items as were asked for."""
    items: list[Item] = []
    alike = unusable = 0
    while len(items) < asked.total:
        try:
            item = next(pool)
        except StopIteration:
            raise WorkloadError(
                f"{asked.total} distinct prompts are needed, {len(items)} are there ({alike} "
                f"others are nearly the same, {unusable} are no prompts)"
            ) from None
        if item is None:
            unusable += 1
        elif known.add(item.content):
            items.append(item)
        else:
            alike += 1
    return _Found(items, alike, unusable)


def _requests(asked: _Asked, items: Sequence[Item]) -> list[Request]:
    part = asked.part
    template = part.template if isinstance(part, Source) else "{prompt}"
    return [
        Request(
            request_id=f"{part.name}-{number:04d}",
            messages=(Message(role="user", content=template.format_map(item.fields)),),
            category=part.category,
            dataset=part.name,
            split="train" if number < asked.train else "eval",
            answer=item.answer,
        )
        for number, item in enumerate(items)
    ]


def _ordered(requests: Sequence[Request], seed: int) -> list[Request]:
    ordered: list[Request] = []
    for split in ("train", "eval"):
        mine = [request for request in requests if request.split == split]
        Random(f"dwise-paper-order-{seed}-{split}").shuffle(mine)
        ordered += mine
    return ordered


def _sha256(requests: Sequence[Request]) -> str:
    lines = (f"{request.split} {request.prompt_sha256}\n" for request in requests)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _missing(skipped: Mapping[str, str], parts: int) -> WorkloadError:
    listed = "".join(f"\n  {name}: {reason}" for name, reason in skipped.items())
    return WorkloadError(
        f"{len(skipped)} of {parts} parts of the workload cannot be had:{listed}\n"
        "Give a folder with the files instead (--data NAME=DIR), or go on without them "
        "(--skip-missing): the other parts keep their numbers, so the workload gets smaller"
    )
