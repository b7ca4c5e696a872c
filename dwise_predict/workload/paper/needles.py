"""Multi-needle prompts: two to four facts among distractor sentences, all of them asked for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from dwise_predict.workload.builtin.vocabulary import (
    ADJECTIVES,
    ANIMALS,
    COLORS,
    FOODS,
    NAMES,
    OBJECTS,
    PLACES,
    VERBS,
)
from dwise_predict.workload.paper.readers import Item

CountTokens = Callable[[str], int]

_SPREAD = 0.03
"""Prompts are this much longer or shorter than asked for, at most, besides rounding."""


def needle_item(rng: Random, tokens: int, facts: tuple[int, int], count: CountTokens) -> Item:
    """Draw one prompt (paper Section 6.1).

    Args:
        rng: source of randomness.
        tokens: length of the prompt, about.
        facts: fewest and most facts.
        count: tokens of a text, without special tokens.
    """
    people = rng.sample(NAMES, rng.randint(*facts))
    codes = {name: str(rng.randrange(1000, 10000)) for name in people}
    needles = [f"The access code of {name} is {codes[name]}." for name in people]
    named = f"{', '.join(people[:-1])} and {people[-1]}"
    ask = (
        f"What are the access codes of {named}? "
        "Answer with the codes only, in this order, separated by commas."
    )
    wanted = round(tokens * rng.uniform(1 - _SPREAD, 1 + _SPREAD))
    length = sum(map(count, (ask, *needles)))
    sentences: list[str] = []
    while length < wanted:
        sentences.append(_distractor(rng))
        length += count(" " + sentences[-1])
    for needle in needles:
        sentences.insert(rng.randrange(len(sentences) + 1), needle)
    text = f"{' '.join(sentences)}\n\n{ask}"
    return Item({"prompt": text}, ", ".join(codes[name] for name in people))


def _distractor(rng: Random) -> str:
    adjective, animal, verb = rng.choice(ADJECTIVES), rng.choice(ANIMALS), rng.choice(VERBS)
    thing, place, food = rng.choice(OBJECTS), rng.choice(PLACES), rng.choice(FOODS)
    color, number = rng.choice(COLORS), rng.randrange(2, 1000)
    return rng.choice(
        (
            f"The {adjective} {animal} {verb} near the {color} {thing} at the {place}.",
            f"There were {number} pieces of {food} beside the {thing} in the {place}.",
            f"In the {place}, a {color} {animal} {verb} past {number} people with a {thing}.",
            f"Nobody at the {place} had seen the {adjective} {color} {thing} and the {food}.",
        )
    )
