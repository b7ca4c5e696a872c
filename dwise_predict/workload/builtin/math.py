"""Arithmetic with worked steps, in English and (for multilingual math) German, Spanish, French.

One set of problems serves all languages: numbers and steps are the same, the words differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dwise_predict.workload.builtin.task import Task, numbered, small_talk
from dwise_predict.workload.builtin.vocabulary import NAMES

Steps = list[str]


@dataclass(frozen=True)
class _Language:
    chain: str
    gain: tuple[str, ...]
    loss: tuple[str, ...]
    ask: str
    compute: str
    table: str
    doubling: str
    total: str
    worked: tuple[str, ...]
    brief: tuple[str, ...]
    close: str


ENGLISH = _Language(
    chain="{name} has {n} coins.",
    gain=("{name} finds {n} more.", "Then {name} gets {n}."),
    loss=("{name} loses {n}.", "Then {name} gives away {n}."),
    ask="How many coins are left?",
    compute="What is {expression}?",
    table="Write the table of {n} up to {m}.",
    doubling="Start with {n} and double it {m} times.",
    total="Add up all numbers from {n} to {m}.",
    worked=("Show each step.", "Explain it."),
    brief=("Only the number.", "Just the result."),
    close="The answer is {n}.",
)
LANGUAGES = (
    _Language(
        chain="{name} hat {n} Münzen.",
        gain=("{name} findet {n} dazu.", "Dann bekommt {name} {n}."),
        loss=("{name} verliert {n}.", "Dann gibt {name} {n} ab."),
        ask="Wie viele Münzen bleiben?",
        compute="Was ist {expression}?",
        table="Schreibe die Reihe von {n} bis {m}.",
        doubling="Beginne mit {n} und verdopple {m} mal.",
        total="Addiere alle Zahlen von {n} bis {m}.",
        worked=("Zeige jeden Schritt.", "Erkläre es."),
        brief=("Nur die Zahl.", "Nur das Ergebnis."),
        close="Die Antwort ist {n}.",
    ),
    _Language(
        chain="{name} tiene {n} monedas.",
        gain=("{name} encuentra {n} más.", "Luego {name} recibe {n}."),
        loss=("{name} pierde {n}.", "Luego {name} regala {n}."),
        ask="¿Cuántas monedas quedan?",
        compute="¿Cuánto es {expression}?",
        table="Escribe la tabla del {n} hasta {m}.",
        doubling="Empieza con {n} y dobla {m} veces.",
        total="Suma todos los números de {n} a {m}.",
        worked=("Muestra cada paso.", "Explica."),
        brief=("Solo el número.", "Solo el resultado."),
        close="La respuesta es {n}.",
    ),
    _Language(
        chain="{name} a {n} pièces.",
        gain=("{name} trouve {n} de plus.", "Puis {name} reçoit {n}."),
        loss=("{name} perd {n}.", "Puis {name} donne {n}."),
        ask="Combien de pièces reste-t-il?",
        compute="Combien font {expression}?",
        table="Écris la table de {n} jusqu'à {m}.",
        doubling="Commence par {n} et double {m} fois.",
        total="Additionne tous les nombres de {n} à {m}.",
        worked=("Montre chaque étape.", "Explique."),
        brief=("Seulement le nombre.", "Seulement le résultat."),
        close="La réponse est {n}.",
    ),
)


def math_task(rng: Random) -> Task:
    """Draw one arithmetic problem in English."""
    return _problem(rng, ENGLISH)


def multilingual_math_task(rng: Random) -> Task:
    """Draw one arithmetic problem in German, Spanish or French."""
    return _problem(rng, rng.choice(LANGUAGES))


def _problem(rng: Random, words: _Language) -> Task:
    kind = rng.choice((_chain, _chain, _sum, _sum, _table, _doubling, _total))
    question, steps, result = kind(rng, words)
    if rng.random() < 0.3:
        question = f"{question} {rng.choice(words.brief)}"
        return Task(small_talk(rng, question), str(result), str(result))
    question = f"{question} {rng.choice(words.worked)}" if rng.random() < 0.5 else question
    reference = "\n".join([*numbered(steps), words.close.format(n=result)])
    return Task(small_talk(rng, question), reference, str(result))


def _chain(rng: Random, words: _Language) -> tuple[str, Steps, int]:
    name = rng.choice(NAMES)
    have = rng.randrange(5, 40)
    sentences, steps = [words.chain.format(name=name, n=have)], []
    for _ in range(rng.choice((1, 1, 2, 3, 4, 5))):
        if have > 4 and rng.random() < 0.5:
            n = rng.randrange(1, min(have, 20))
            sentences.append(rng.choice(words.loss).format(name=name, n=n))
            steps.append(f"{have} - {n} = {have - n}")
            have -= n
        else:
            n = rng.randrange(1, 20)
            sentences.append(rng.choice(words.gain).format(name=name, n=n))
            steps.append(f"{have} + {n} = {have + n}")
            have += n
    return " ".join([*sentences, words.ask]), steps, have


def _sum(rng: Random, words: _Language) -> tuple[str, Steps, int]:
    if rng.random() < 0.3:
        a, b = rng.randrange(2, 10), rng.randrange(2, 10)
        question = words.compute.format(expression=f"{a} * {b}")
        return question, [f"{a} * {b} = {a * b}"], a * b
    a, b = rng.randrange(10, 100), rng.randrange(10, 100)
    tens, ones = a // 10 * 10 + b // 10 * 10, a % 10 + b % 10
    steps = [
        f"{a // 10 * 10} + {b // 10 * 10} = {tens}",
        f"{a % 10} + {b % 10} = {ones}",
        f"{tens} + {ones} = {tens + ones}",
    ]
    return words.compute.format(expression=f"{a} + {b}"), steps, a + b


def _table(rng: Random, words: _Language) -> tuple[str, Steps, int]:
    n, m = rng.randrange(2, 10), rng.choice((2, 3, 5, 7, 10, 12))
    steps = [f"{n} * {i} = {n * i}" for i in range(1, m + 1)]
    return words.table.format(n=n, m=m), steps, n * m


def _doubling(rng: Random, words: _Language) -> tuple[str, Steps, int]:
    n, m = rng.randrange(1, 6), rng.choice((1, 2, 3, 4, 6, 8))
    steps, value = [], n
    for _ in range(m):
        steps.append(f"2 * {value} = {2 * value}")
        value *= 2
    return words.doubling.format(n=n, m=m), steps, value


def _total(rng: Random, words: _Language) -> tuple[str, Steps, int]:
    n = rng.randrange(1, 10)
    m = n + rng.choice((1, 2, 3, 5, 7, 9))
    steps, value = [], n
    for i in range(n + 1, m + 1):
        steps.append(f"{value} + {i} = {value + i}")
        value += i
    return words.total.format(n=n, m=m), steps, value
