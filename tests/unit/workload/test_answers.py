"""Answer checking by the form of the expected answer."""

from __future__ import annotations

import pytest

from dwise_predict.workload.answers import answer_correct, answer_kind


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("42", "number"), ("-3.5", "number"), ("B", "letter"), ("a, b", "items"), ("fox", "text")],
)
def test_kind(answer: str, kind: str) -> None:
    assert answer_kind(answer) == kind


@pytest.mark.parametrize(
    ("answer", "text", "correct"),
    [
        ("42", "7 * 6 = 42\nThe answer is 42.", True),
        ("42", "42 is wrong, it is 41", False),
        ("1200", "It costs 1,200.", True),
        ("1,000", "500 + 500 = 1,000", True),
        ("1,000", "The answer is 1000", True),
        ("1,000", "The answer is 100", False),
        ("Paris, France", "The capital is Paris, France.", True),
        ("Paris, France", "The capital is Paris, Texas.", False),
        ("42", "no number here", False),
        ("42", "142", False),
        ("B", "A) stone is a thing.\nB) fox is an animal.\nAnswer: B", True),
        ("B", "Answer: A", False),
        ("B", "Because", False),
        ("12, 7", "12, 7", True),
        ("12, 7", "7, 12", False),
        ("3318, 2751", "1. The code of Rosa is 3318.\n2. The code of Emma is 2751.", True),
        ("3318, 2751", "1/2 Rosa: 3318.\n2/2 Emma: 2751.", True),
        ("3318, 2751", "1/2 Rosa: 3318.\n2/2 Emma: 2715.", False),
        ("H", "G) 12 is less than 97.\nH) 97 is the largest.\nAnswer: H) 97", True),
        ("ant, bee", "Ant, bee", True),
        ("ant, bee", "ant, bee, cat", False),
        ("fox", "The fox.", True),
        ("fox", "foxes", False),
        ("I am well", "i am  well.", True),
    ],
)
def test_correct(answer: str, text: str, correct: bool) -> None:
    assert answer_correct(answer, text) is correct
