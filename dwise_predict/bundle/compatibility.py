"""Whether a bundle's predictions hold for a target, and what each difference does to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dwise_predict.fingerprint import Fingerprint

Level = Literal["compatible", "compatible with warnings", "incompatible"]
_CONTENT_HASH = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Difference:
    """One field in which bundle and target differ.

    Attributes:
        field: of the fingerprint, e.g. ``block_size`` or ``algorithm_parameters.threshold``.
        fatal: predictions mean nothing for the target; otherwise they are less exact.
        sentence: what differs, and what it does to the predictions.
    """

    field: str
    fatal: bool
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """Answer of :func:`compare_fingerprints`; the differences are in the fingerprint's order."""

    differences: tuple[Difference, ...]

    @property
    def level(self) -> Level:
        """In the words that people are shown."""
        if not self.differences:
            return "compatible"
        fatal = any(difference.fatal for difference in self.differences)
        return "incompatible" if fatal else "compatible with warnings"

    @property
    def usable(self) -> bool:
        """Whether the predictions mean something for the target."""
        return self.level != "incompatible"

    def __str__(self) -> str:
        lines = [
            f"- {'' if difference.fatal else 'warning: '}{difference.sentence}"
            for difference in self.differences
        ]
        return "\n".join([self.level, *lines])


def compare_fingerprints(bundle: Fingerprint, target: Fingerprint) -> Verdict:
    """Compare what a bundle was trained on with what is going to be served."""
    found = [_model(bundle, target), _revision(bundle, target)]
    for field, (fatal, sentence) in _RULES.items():
        before, after = getattr(bundle, field), getattr(target, field)
        if before != after:
            too = "too short" if after > before else "too long"
            words = {"before": _shown(before), "after": _shown(after), "too": too}
            found.append(Difference(field, fatal, sentence.format(**words)))
        if field == "algorithm" and before == after:
            found += _parameters(bundle.algorithm_parameters, target.algorithm_parameters)
    return Verdict(tuple(difference for difference in found if difference is not None))


def _model(bundle: Fingerprint, target: Fingerprint) -> Difference | None:
    if bundle.model == target.model:
        return None
    if bundle.revision == target.revision and _names_content(bundle.revision):
        return Difference(
            "model",
            False,
            f"the model is called {target.model}, the bundle was trained on {bundle.model} of the "
            "same revision: the weights are the same, so predictions hold",
        )
    return Difference(
        "model",
        True,
        f"the model is {target.model}, the bundle was trained on {bundle.model}: hidden states "
        "and rounds of another model are unrelated",
    )


def _names_content(revision: str | None) -> bool:
    """Whether equal revisions mean equal weights; every repository has a branch ``main``."""
    text = revision or ""
    return bool(_CONTENT_HASH.fullmatch(text) or _COMMIT.fullmatch(text))


def _revision(bundle: Fingerprint, target: Fingerprint) -> Difference | None:
    if bundle.model != target.model or bundle.revision == target.revision:
        return None
    before, after = bundle.revision or "unknown", target.revision or "unknown"
    if _CONTENT_HASH.fullmatch(before) and _CONTENT_HASH.fullmatch(after):
        return Difference(
            "revision",
            True,
            f"the weights (hash {after[:12]}…) are not those that the bundle was trained on "
            f"({before[:12]}…): hidden states and rounds of other weights are unrelated",
        )
    return Difference(
        "revision",
        False,
        f"the revision is {after}, the bundle was trained on {before}: if the weights changed in "
        "between, refined estimates may be wrong for every request",
    )


def _parameters(before: dict[str, float], after: dict[str, float]) -> list[Difference | None]:
    return [
        Difference(
            f"algorithm_parameters.{name}",
            True,
            f"the decoding parameter {name} is {_shown(after.get(name))}, the bundle was trained "
            f"with {_shown(before.get(name))}: blocks take another number of rounds, so every "
            "estimate is on a wrong scale",
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "not set"
    return f"{value:g}" if isinstance(value, float) else str(value)


# Field: whether a difference is fatal, and what it does.
_RULES: dict[str, tuple[bool, str]] = {
    "architecture": (
        True,
        "the architecture is {after}, the bundle was trained on {before}: hidden states of another "
        "architecture are unrelated",
    ),
    "hidden_size": (
        True,
        "hidden states have {after} numbers, the refinement predictor takes {before}: nothing can "
        "be refined",
    ),
    "algorithm": (
        True,
        "decoding is by {after}, the bundle was trained with {before}: another algorithm takes "
        "other rounds for the same answer, so every estimate is on a wrong scale",
    ),
    "block_size": (
        True,
        "blocks have {after} tokens, the bundle was trained with blocks of {before}: rounds per "
        "block and the hidden mean of the first block are others, so every estimate is wrong",
    ),
    "fdfo": (
        True,
        "first done, first out is {after}, in the bundle's training it was {before}: how long a "
        "finished block waits for its neighbours changes, and so does what a round counts",
    ),
    "budget_tokens": (
        False,
        "the output budget is {after} tokens, the bundle was trained with {before}: requests that "
        "end by themselves before either are predicted as before, those that reach the smaller "
        "one are predicted {too}",
    ),
    "engine": (
        False,
        "the engine is {after}, the bundle was trained on {before}: both decode by the same rules "
        "but round differently, so single requests may take other rounds",
    ),
    "engine_version": (
        False,
        "the engine's version is {after}, the bundle was trained on {before}: if decoding changed "
        "in between, estimates are biased; compare the rounds of a few requests",
    ),
    "dtype": (
        False,
        "numbers are {after}, the bundle was trained with {before}: rounding differs, so hidden "
        "states shift a little and single requests may take other rounds",
    ),
    "work_unit": (
        True,
        "a round counts {after}, in the bundle {before}: estimates count something else than the "
        "scheduler does",
    ),
}
