"""Whether a bundle's predictions hold for a target, and what each difference does to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dwise_predict.fingerprint import Fingerprint

Level = Literal["compatible", "compatible with warnings", "incompatible"]
_CONTENT_HASH = re.compile(r"[0-9a-f]{64}")


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
    for field, rule in _RULES.items():
        before, after = getattr(bundle, field), getattr(target, field)
        if before != after:
            found.append(rule(before, after))
        if field == "algorithm" and before == after:
            found += _parameters(bundle.algorithm_parameters, target.algorithm_parameters)
    return Verdict(tuple(difference for difference in found if difference is not None))


def _model(bundle: Fingerprint, target: Fingerprint) -> Difference | None:
    if bundle.model == target.model:
        return None
    if bundle.revision is not None and bundle.revision == target.revision:
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


def _shown(value: float | None) -> str:
    return "not set" if value is None else f"{value:g}"


def _architecture(before: str, after: str) -> Difference:
    return Difference(
        "architecture",
        True,
        f"the architecture is {after}, the bundle was trained on {before}: hidden states of "
        "another architecture are unrelated",
    )


def _hidden_size(before: int, after: int) -> Difference:
    return Difference(
        "hidden_size",
        True,
        f"hidden states have {after} numbers, the refinement predictor takes {before}: nothing "
        "can be refined",
    )


def _algorithm(before: str, after: str) -> Difference:
    return Difference(
        "algorithm",
        True,
        f"decoding is by {after}, the bundle was trained with {before}: another algorithm takes "
        "other rounds for the same answer, so every estimate is on a wrong scale",
    )


def _block_size(before: int, after: int) -> Difference:
    return Difference(
        "block_size",
        True,
        f"blocks have {after} tokens, the bundle was trained with blocks of {before}: rounds per "
        "block and the hidden mean of the first block are others, so every estimate is wrong",
    )


def _fdfo(before: bool, after: bool) -> Difference:
    words = {True: "leave a round one by one", False: "wait for the slowest of their batch"}
    return Difference(
        "fdfo",
        True,
        f"finished blocks {words[after]} (fdfo {str(after).lower()}), in the bundle's training "
        f"they {words[before]}: a request's rounds then depend on its neighbours, or no longer do",
    )


def _budget_tokens(before: int, after: int) -> Difference:
    effect = "too short" if after > before else "too long"
    return Difference(
        "budget_tokens",
        False,
        f"the output budget is {after} tokens, the bundle was trained with {before}: requests "
        f"that end by themselves before either are predicted as before, those that reach the "
        f"smaller one are predicted {effect}",
    )


def _engine(before: str, after: str) -> Difference:
    return Difference(
        "engine",
        False,
        f"the engine is {after}, the bundle was trained on {before}: both decode by the same "
        "rules but round differently, so single requests may take other rounds",
    )


def _engine_version(before: str, after: str) -> Difference:
    return Difference(
        "engine_version",
        False,
        f"the engine's version is {after}, the bundle was trained on {before}: if decoding "
        "changed in between, estimates are biased; compare the rounds of a few requests",
    )


def _dtype(before: str, after: str) -> Difference:
    return Difference(
        "dtype",
        False,
        f"numbers are {after}, the bundle was trained with {before}: rounding differs, so hidden "
        "states shift a little and single requests may take other rounds",
    )


def _work_unit(before: str, after: str) -> Difference:
    return Difference(
        "work_unit",
        True,
        f"a round counts {after}, in the bundle {before}: estimates count something else than "
        "the scheduler does",
    )


_RULES: dict[str, Callable[..., Difference]] = {
    "architecture": _architecture,
    "hidden_size": _hidden_size,
    "algorithm": _algorithm,
    "block_size": _block_size,
    "fdfo": _fdfo,
    "budget_tokens": _budget_tokens,
    "engine": _engine,
    "engine_version": _engine_version,
    "dtype": _dtype,
    "work_unit": _work_unit,
}
