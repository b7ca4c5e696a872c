"""Chat: stories and poems that nobody can foresee, facts and steps that a model knows, small talk.

Answers span one word to some two hundred tokens. What decides is in the content: the kind of
request, an adjective ("short", "long"), the animal or the activity.
"""

from __future__ import annotations

from random import Random

from dwise_predict.workload.builtin.task import Task, small_talk
from dwise_predict.workload.builtin.vocabulary import (
    ADJECTIVES,
    ANIMALS,
    FACTS,
    FOODS,
    OBJECTS,
    PLACES,
    STEPS,
    VERBS,
)

STORY_LENGTHS = {"tiny": 1, "short": 2, "little": 3, "nice": 5, "long": 7, "very long": 9}
_CONNECTIVES = (
    "One day", "Then", "After that", "Later", "In the evening", "At night", "In the morning",
    "The next day", "At last",
)  # fmt: skip


def chat_task(rng: Random) -> Task:
    """Draw one chat request."""
    kind = rng.choice((_story, _story, _facts, _facts, _steps, _opinion, _greeting, _poem))
    question, reference = kind(rng)
    return Task(small_talk(rng, question), reference)


def _story(rng: Random) -> tuple[str, str]:
    length = rng.choice(tuple(STORY_LENGTHS))
    hero, place = rng.choice(ANIMALS), rng.choice(PLACES)
    question = rng.choice(
        (
            f"Tell me a {length} story about a {hero}.",
            f"Please write a {length} story about a {hero} at the {place}.",
            f"Can you tell a {length} story with a {hero} in it?",
        )
    )
    lines = [f"This is a {length} story about a {rng.choice(ADJECTIVES)} {hero}."]
    for index in range(STORY_LENGTHS[length]):
        verb, where = rng.choice(VERBS), rng.choice(PLACES)
        lines.append(
            f"{_CONNECTIVES[index]} the {hero} "
            + rng.choice(
                (
                    f"{verb} to the {where}.",
                    f"{verb} near the {where} and found a {rng.choice(OBJECTS)}.",
                    f"met a {rng.choice(ADJECTIVES)} {rng.choice(ANIMALS)} and {verb}.",
                )
            )
        )
    lines.append(f"In the end the {hero} was {rng.choice(('happy', 'tired', 'home again'))}.")
    return question, " ".join(lines)


def _facts(rng: Random) -> tuple[str, str]:
    animal = rng.choice(ANIMALS)
    facts = FACTS[animal]
    if rng.random() < 0.3:
        return f"Tell me one thing about the {animal}.", facts[0]
    question = rng.choice(
        (f"What do you know about the {animal}?", f"Tell me all about the {animal}.")
    )
    return question, f"I know {len(facts)} of the {animal}. " + " ".join(facts)


def _steps(rng: Random) -> tuple[str, str]:
    activity = rng.choice(tuple(STEPS))
    steps = STEPS[activity]
    if rng.random() < 0.25:
        return f"How many steps does it take to {activity}?", str(len(steps))
    question = rng.choice((f"How do I {activity}?", f"I want to {activity}. What do I do?"))
    return question, "\n".join(f"{i}. {step}" for i, step in enumerate(steps, 1))


def _opinion(rng: Random) -> tuple[str, str]:
    first, second = rng.sample(FOODS + ANIMALS, 2)
    if rng.random() < 0.5:
        question = f"What do you like more, {first} or {second}? One word, please."
        return question, min(first, second)
    question = f"What do you like more, {first} or {second}, and why?"
    better, worse = sorted((first, second))
    good, bad = rng.sample(ADJECTIVES, 2)
    return question, (
        f"I like {better} more. It makes me feel {good}, and {worse} makes me feel {bad}."
    )


def _greeting(rng: Random) -> tuple[str, str]:
    return rng.choice(
        (
            ("How are you?", "I am well."),
            ("Good morning!", "Good morning!"),
            ("Are you there?", "Yes."),
            ("Who are you?", "I am a small language model."),
            ("Do you like to talk?", "Yes, I like to talk. What do you want to know?"),
        )
    )


def _poem(rng: Random) -> tuple[str, str]:
    verses = rng.choice((1, 1, 2, 3))
    place = rng.choice(PLACES)
    amount = ("one verse", "two verses", "three verses")[verses - 1]
    question = f"Write a poem of {amount} about the {place}."
    lines = []
    for _ in range(verses):
        subject = rng.choice(ANIMALS)
        lines += [
            f"The {rng.choice(ADJECTIVES)} {subject} by the {place},",
            f"the {rng.choice(ADJECTIVES)} {rng.choice(OBJECTS)} at the {rng.choice(PLACES)},",
            f"it {rng.choice(VERBS)} and {rng.choice(VERBS)} all day.",
        ]
    return question, f"A poem of {amount}.\n" + "\n".join(lines)
