import pyarrow as pa

from dwise_predict.evaluation.outcomes import Answers, outcomes


def test_figures_of_served_requests() -> None:
    table = pa.table(
        {
            "category": ["math", "chat", "math", "choice"],
            "rounds": [10, 20, 30, 40],
            "output_tokens": [20, 30, 60, 40],
            "finish_reason": ["eos", "budget", "eos", "eos"],
            "answer_correct": pa.array([True, None, False, True]),
        }
    )
    served = outcomes(table)
    assert (served.requests, served.rounds_p50, served.rounds_max) == (4, 25.0, 40)
    assert served.tokens_per_round == 1.5
    assert served.ended_by_eos == 0.75
    assert served.answers == {"math": Answers(1, 2), "choice": Answers(1, 1)}
    assert served.answers["math"].share == 0.5


def test_without_checkable_requests_there_are_no_answers() -> None:
    table = pa.table(
        {
            "category": ["chat"],
            "rounds": [3],
            "output_tokens": [3],
            "finish_reason": ["budget"],
            "answer_correct": pa.array([None], pa.bool_()),
        }
    )
    assert outcomes(table).answers == {}
    assert outcomes(table).ended_by_eos == 0.0
