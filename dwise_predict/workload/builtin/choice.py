"""Multiple choice: four options about common words; hard: up to ten options that need work."""

from __future__ import annotations

from random import Random

from dwise_predict.workload.builtin.task import Task, small_talk
from dwise_predict.workload.builtin.vocabulary import CLASSES, FACTS

LETTERS = "ABCDEFGHIJ"


def multiple_choice_task(rng: Random) -> Task:
    """Draw one question with three to five options."""
    wanted = rng.choice(tuple(CLASSES))
    right = rng.choice(CLASSES[wanted])
    others = [(word, c) for c, words in CLASSES.items() if c != wanted for word in words]
    options = [*rng.sample(others, rng.randrange(2, 5)), (right, wanted)]
    rng.shuffle(options)
    article = "an" if wanted == "animal" else "a"
    notes = [f"{word} is {'an' if c == 'animal' else 'a'} {c}" for word, c in options]
    return _question(
        rng,
        f"Which one is {article} {wanted}?",
        [word for word, _ in options],
        notes,
        LETTERS[[word for word, _ in options].index(right)],
    )


def hard_multiple_choice_task(rng: Random) -> Task:
    """Draw one question with up to ten options that takes arithmetic, comparison or knowledge."""
    size = rng.choice((4, 6, 8, 10))
    kind = rng.choice((_sum_options, _largest_options, _fact_options))
    stem, options, notes, right = kind(rng, size)
    return _question(rng, stem, options, notes, LETTERS[right])


def _question(rng: Random, stem: str, options: list[str], notes: list[str], letter: str) -> Task:
    listed = " ".join(f"{LETTERS[i]}) {option}" for i, option in enumerate(options))
    right = LETTERS.index(letter)
    close = f"Answer: {letter}) {options[right]}"
    style = rng.choice(("letter", "letter", "reason", "each"))
    if style == "letter":
        ask, reference = rng.choice(("Letter only.", "Give the letter.")), letter
    elif style == "reason":
        ask, reference = "Say why.", f"{letter}) {notes[right]}. {close}"
    else:
        ask = rng.choice(("Explain each option.", "Go through all options."))
        lines = [f"{LETTERS[i]}) {note}." for i, note in enumerate(notes)]
        reference = "\n".join([*lines, close])
    return Task(small_talk(rng, f"{stem} {listed} {ask}"), reference, letter)


def _sum_options(rng: Random, size: int) -> tuple[str, list[str], list[str], int]:
    a, b = rng.randrange(5, 50), rng.randrange(5, 50)
    near = [x for x in range(a + b - 9, a + b + 10) if x != a + b]
    values = [*rng.sample(near, size - 1), a + b]
    rng.shuffle(values)
    notes = [f"{a} + {b} is {'' if v == a + b else 'not '}{v}" for v in values]
    return f"What is {a} + {b}?", [str(v) for v in values], notes, values.index(a + b)


def _largest_options(rng: Random, size: int) -> tuple[str, list[str], list[str], int]:
    values = rng.sample(range(10, 100), size)
    best = max(values)
    notes = [f"{v} is {'the largest' if v == best else f'less than {best}'}" for v in values]
    return "Which is the largest?", [str(v) for v in values], notes, values.index(best)


def _fact_options(rng: Random, size: int) -> tuple[str, list[str], list[str], int]:
    fact = rng.choice(sorted({f for facts in FACTS.values() for f in facts}))
    knows = [animal for animal, facts in FACTS.items() if fact in facts]
    right = rng.choice(knows)
    options = [*rng.sample([a for a in FACTS if a not in knows], size - 1), right]
    rng.shuffle(options)
    notes = [f"{animal}: {FACTS[animal][0][:-1]}" for animal in options]
    notes[options.index(right)] = f"{right}: {fact[:-1]}"
    stem = f"For which animal is this true: {fact}"
    return stem, options, notes, options.index(right)
