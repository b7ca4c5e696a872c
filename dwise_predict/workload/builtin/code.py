"""Code: small Python functions, regular enough to be denoised many tokens a round."""

from __future__ import annotations

from random import Random

from dwise_predict.workload.builtin.task import Task, small_talk

# Name of the operation, its code on a list called items, and the words for it.
_OPERATIONS: tuple[tuple[str, str, str], ...] = (
    ("keep_even", "items = [x for x in items if x % 2 == 0]", "keeps the even numbers"),
    ("keep_odd", "items = [x for x in items if x % 2 == 1]", "keeps the odd numbers"),
    ("keep_positive", "items = [x for x in items if x > 0]", "keeps the positive numbers"),
    ("double", "items = [2 * x for x in items]", "doubles each number"),
    ("square", "items = [x * x for x in items]", "squares each number"),
    ("add_one", "items = [x + 1 for x in items]", "adds one to each number"),
    ("sort", "items = sorted(items)", "sorts the list"),
    ("reverse", "items = items[::-1]", "reverses the list"),
    ("unique", "items = list(dict.fromkeys(items))", "drops repeated numbers"),
    ("drop_first", "items = items[1:]", "drops the first number"),
)
_RESULTS: tuple[tuple[str, str, str], ...] = (
    ("total", "return sum(items)", "returns the sum"),
    ("largest", "return max(items)", "returns the largest"),
    ("smallest", "return min(items)", "returns the smallest"),
    ("size", "return len(items)", "returns how many are left"),
    ("mean", "return sum(items) / len(items)", "returns the mean"),
    ("result", "return items", "returns the list"),
)
_CLASSES = {
    "stack": ("push", "pop", "peek", "size", "clear"),
    "counter": ("add", "total"),
    "account": ("deposit", "withdraw", "balance"),
    "timer": ("start", "stop", "reset", "elapsed"),
    "lamp": ("switch",),
    "playlist": ("add", "remove", "next", "shuffle", "size", "clear", "play"),
}


def code_task(rng: Random) -> Task:
    """Draw one programming request."""
    kind = rng.choice((_function, _function, _function, _class, _one_line, _table))
    question, reference = kind(rng)
    return Task(small_talk(rng, question), reference)


def _function(rng: Random) -> tuple[str, str]:
    steps = rng.sample(_OPERATIONS, rng.randrange(1, 4))
    result = rng.choice(_RESULTS)
    style = rng.choice(("", "", "Add comments.", "Add a doc string and tests."))
    words = ", ".join([s[2] for s in steps] + [result[2]])
    question = f"Write a Python function that {words}. {style}".rstrip()
    name = "_".join([steps[0][0], result[0]])
    lines = [f"def {name}(items):"]
    if "doc" in style:
        lines.append(f'    """Function that {words}."""')
    for step in steps:
        if "comments" in style:
            lines.append(f"    # {step[2]}")
        lines.append(f"    {step[1]}")
    if "comments" in style:
        lines.append(f"    # {result[2]}")
    lines.append(f"    {result[1]}")
    if "tests" in style:
        lines += [
            "",
            f"print({name}([1, 2, 3]))",
            f"print({name}([5, 4, 4]))",
            f"print({name}([7]))",
        ]
    return question, "\n".join(lines)


def _class(rng: Random) -> tuple[str, str]:
    noun = rng.choice(tuple(_CLASSES))
    lines = [f"class {noun.title()}:", "    def __init__(self):", f"        self.{noun} = []"]
    for method in _CLASSES[noun]:
        lines += ["", f"    def {method}(self):", f"        return self.{noun}.{method}()"]
    return f"Write a Python class for a {noun}.", "\n".join(lines)


def _one_line(rng: Random) -> tuple[str, str]:
    _, code, words = rng.choice(_OPERATIONS)
    return f"Give me one line of Python that {words}. Only the line.", code


def _table(rng: Random) -> tuple[str, str]:
    size = rng.choice((2, 4, 6, 9))
    start = rng.randrange(2, 50)
    name = rng.choice(("prices", "ages", "points", "sizes"))
    question = f"Write a Python dict {name} with {size} keys from {start}, each with its double."
    rows = [f"    {start + i}: {2 * (start + i)}," for i in range(size)]
    return question, "\n".join([f"{name} = {{", *rows, "}"])
