"""Instructions with a form that can be checked: lists, counting, copying, sorting, JSON."""

from __future__ import annotations

from random import Random

from dwise_predict.workload.builtin.task import Task, numbered, small_talk
from dwise_predict.workload.builtin.vocabulary import ADJECTIVES, ANIMALS, NAMES, OBJECTS, PLACES

_SMALL_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def instruction_task(rng: Random) -> Task:
    """Draw one instruction."""
    kind = rng.choice((_count, _count, _repeat, _sort, _select, _record, _sentences, _sentences))
    question, reference, answer = kind(rng)
    return Task(small_talk(rng, question), reference, answer)


def _count(rng: Random) -> tuple[str, str, str]:
    size = rng.choice((2, 3, 5, 8, 12, 18, 25, 35))
    first = rng.randrange(1, 60)
    step = rng.choice((1, 1, 2, 5))
    numbers = [first + step * i for i in range(size)]
    by = "" if step == 1 else f" in steps of {step}"
    question = f"Count from {numbers[0]} to {numbers[-1]}{by}."
    if rng.random() < 0.3:
        numbers.reverse()
        question = f"Count down from {numbers[0]} to {numbers[-1]}{by}."
    listed = ", ".join(map(str, numbers))
    return question, listed, listed


def _repeat(rng: Random) -> tuple[str, str, str]:
    times = rng.randrange(1, 11)
    word = rng.choice(ANIMALS + OBJECTS)
    question = rng.choice(
        (
            f"Write the word {word} {_SMALL_NUMBERS[times - 1]} times, with commas.",
            f"Repeat {word} {times} times and put commas between.",
        )
    )
    listed = ", ".join([word] * times)
    return question, listed, listed


def _sort(rng: Random) -> tuple[str, str, str]:
    words = rng.sample(ANIMALS + OBJECTS, rng.randrange(2, 7))
    question = f"Put these words in the order of the alphabet: {', '.join(words)}."
    listed = ", ".join(sorted(words))
    return question, listed, listed


def _select(rng: Random) -> tuple[str, str, str]:
    words = rng.sample(ANIMALS + OBJECTS, rng.randrange(3, 9))
    place = rng.randrange(len(words))
    order = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")[place]
    question = f"Here are some words: {', '.join(words)}. Write the {order} word only."
    return question, words[place], words[place]


def _record(rng: Random) -> tuple[str, str, str | None]:
    name, place, thing = rng.choice(NAMES), rng.choice(PLACES), rng.choice(OBJECTS)
    age = rng.randrange(5, 95)
    if rng.random() < 0.4:
        question = f"{name} is {age} years old. Give only the age of {name}."
        return question, str(age), str(age)
    question = f"{name} is {age} years old and has a {thing} at the {place}. Write this as JSON."
    reference = f'{{"name": "{name}", "age": {age}, "thing": "{thing}", "place": "{place}"}}'
    return question, reference, None


def _sentences(rng: Random) -> tuple[str, str, str | None]:
    count = rng.choice((1, 2, 3, 4, 6, 8, 10))
    topic = rng.choice(OBJECTS)
    number = _SMALL_NUMBERS[count - 1]
    question = f"Write {number} numbered sentences about a {topic}."
    lines = [
        f"The {topic} of {rng.choice(NAMES)} is {rng.choice(ADJECTIVES)} and at the "
        f"{rng.choice(PLACES)}."
        for _ in range(count)
    ]
    return question, "\n".join(numbered(lines)), None
