"""Long context: two to four facts to find among many sentences about other things."""

from __future__ import annotations

from random import Random

from dwise_predict.workload.builtin.task import Task, numbered
from dwise_predict.workload.builtin.vocabulary import (
    ADJECTIVES,
    ANIMALS,
    NAMES,
    OBJECTS,
    PLACES,
    VERBS,
)


def long_context_task(rng: Random, sentences: int | None = None) -> Task:
    """Draw one multi-needle retrieval prompt (paper Table 1: 2-4 facts among distractors).

    Args:
        rng: source of randomness.
        sentences: distractor sentences; None draws 65 to 90, about a thousand tokens.
    """
    total = rng.randrange(65, 91) if sentences is None else sentences
    people = rng.sample(NAMES, rng.randrange(4, 9))
    codes = {name: f"{rng.randrange(1000, 10000)}" for name in people}
    lines = [_distractor(rng) for _ in range(total)]
    for name in people:
        lines.insert(rng.randrange(len(lines) + 1), f"The code of {name} is {codes[name]}.")
    asked = rng.sample(people, rng.choice((2, 2, 3, 4)))
    names = f"{', '.join(asked[:-1])} and {asked[-1]}"
    style = rng.choice(("codes", "codes", "sentences", "report"))
    if style == "codes":
        ask = f"What are the codes of {names}? Only the codes."
        reference = ", ".join(codes[name] for name in asked)
    elif style == "sentences":
        ask = f"What are the codes of {names}?"
        reference = "\n".join(f"The code of {name} is {codes[name]}." for name in asked)
    else:
        ask = f"Write a report on the codes of {names}."
        reference = "\n".join(
            numbered(
                [f"I looked for {name}. The code of {name} is {codes[name]}." for name in asked]
            )
        )
    question_first = rng.random() < 0.5
    text = " ".join(lines)
    prompt = f"{ask}\n{text}" if question_first else f"{text}\n{ask}"
    return Task(prompt, reference, ", ".join(codes[name] for name in asked))


def _distractor(rng: Random) -> str:
    return (
        f"The {rng.choice(ADJECTIVES)} {rng.choice(ANIMALS)} {rng.choice(VERBS)} "
        f"near the {rng.choice(OBJECTS)} at the {rng.choice(PLACES)}."
    )
