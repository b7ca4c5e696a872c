"""What every built-in generator returns, and the small talk around a question."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dwise_predict.workload.builtin.vocabulary import ADJECTIVES, ANIMALS, NAMES, PLACES


@dataclass(frozen=True)
class Task:
    """A generated prompt with the reference answer that the embedded model is trained on."""

    prompt: str
    reference: str
    answer: str | None = None
    """What a checker looks for in the output; None when nothing is checkable."""


def numbered(lines: list[str]) -> list[str]:
    """Put "1/3 ", "2/3 ", ... before lines: a plan that tells, line by line, when to stop."""
    return [f"{index}/{len(lines)} {line}" for index, line in enumerate(lines, 1)]


def small_talk(rng: Random, question: str) -> str:
    """Put zero to four unrelated sentences around ``question``.

    Real prompts differ in length for reasons that have nothing to do with the work they ask for
    (the paper finds a correlation of 0.16 within a category). Without this, the length of a
    generated prompt would give its answer's length away.
    """
    before = [_aside(rng) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    after = [_closing(rng) for _ in range(rng.choice((0, 0, 0, 1)))]
    joint = rng.choice((" ", " ", "\n"))
    return joint.join([*before, question, *after])


def _aside(rng: Random) -> str:
    name, place = rng.choice(NAMES), rng.choice(PLACES)
    animal, adjective = rng.choice(ANIMALS), rng.choice(ADJECTIVES)
    return rng.choice(
        (
            "Hello.",
            "I have a question.",
            f"I am {name}.",
            f"My friend {name} told me to ask you.",
            f"Today I am at the {place}.",
            f"I was at the {place} with {name}, and we saw a {adjective} {animal}.",
            f"It was a {adjective} day.",
            f"{name} and I do not agree about this.",
        )
    )


def _closing(rng: Random) -> str:
    name = rng.choice(NAMES)
    return rng.choice(
        (
            "Thank you.",
            "Please help me.",
            f"I will tell {name}.",
            "Thanks a lot, and have a good day.",
        )
    )
