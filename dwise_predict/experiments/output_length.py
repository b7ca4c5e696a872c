"""Table 12: output length is not work."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dwise_predict.experiments.case import BURST, LEARNED, Case
from dwise_predict.experiments.experiment import Column, Experiment
from dwise_predict.experiments.measures import MEAN, is_choice, measures
from dwise_predict.experiments.plots import bars
from dwise_predict.experiments.settings import Settings
from dwise_predict.experiments.study import Study, served_work
from dwise_predict.experiments.values import Value
from dwise_predict.experiments.work import Work
from dwise_predict.rank import spearman
from dwise_predict.simulation.workload import FloatArray

CASES = [Case(run, BURST) for run in ("SGLang", *LEARNED, "DWISE")]
CHOICE, TRUE_LENGTH = "multiple choice", "true output tokens"
PARTS = ("choice_latency_sum_s", "other_latency_sum_s")


def _work(settings: Settings) -> list[Work]:
    return served_work(settings, range(settings.seeds), CASES)


def _measure(study: Study) -> list[Value]:
    values = []
    for seed in study.seeds:
        results = {case.run: study.results(seed, case) for case in CASES}
        requests = results["DWISE"].requests
        prefill, rounds = _column(requests, "prompt_blocks"), _column(requests, "rounds")
        work = prefill + rounds
        choice = np.array([is_choice(name) for name in requests["category"].to_pylist()])
        shares = {
            "requests_pct": 100 * float(choice.mean()),
            "work_pct": 100 * float(work[choice].sum() / work.sum()),
        }
        values += [Value(BURST, CHOICE, name, seed, value) for name, value in shares.items()]
        # Whoever ends in its first round is never refined.
        left = np.nan_to_num(_column(requests, "refined_estimate"), nan=0.0)
        scores = {
            **{n: _column(results[n].requests, "admission_estimate") for n in LEARNED},
            TRUE_LENGTH: _column(requests, "output_tokens"),
            "DWISE at admission": prefill + _column(requests, "admission_estimate"),
            "DWISE refined": prefill + 1 + left,
        }
        for run, score in scores.items():
            ranks = {
                "work_spearman": spearman(score, work) or 0.0,
                "work_spearman_other": spearman(score[~choice], work[~choice]) or 0.0,
            }
            values += [Value(BURST, run, name, seed, value) for name, value in ranks.items()]
        stock = measures(results["SGLang"])
        for run in LEARNED:
            figures = measures(results[run])
            choice_s, other_s = (figures[part] - stock[part] for part in PARTS)
            changes = {
                "delta_choice_pct": choice_s,
                "delta_other_pct": other_s,
                "delta_pct": choice_s + other_s,
            }
            values += [
                Value(BURST, run, name, seed, 100 * seconds / stock[MEAN])
                for name, seconds in changes.items()
            ]
    return values


def _column(requests: pa.Table, name: str) -> FloatArray:
    return np.asarray(requests[name].to_numpy(), dtype=np.float64)


EXPERIMENT = Experiment(
    name="output-length",
    source="Table 12",
    title="Output length is not work",
    columns=(
        Column("requests_pct", "requests (%)", ".1f"),
        Column("work_pct", "work (%)", ".1f"),
        Column("work_spearman", "Spearman with work", ".2f"),
        Column("work_spearman_other", "without multiple choice", ".2f"),
        Column("delta_choice_pct", "latency, multiple choice (%)", "+.1f"),
        Column("delta_other_pct", "others (%)", "+.1f"),
        Column("delta_pct", "all (%)", "+.1f"),
    ),
    work=_work,
    measure=_measure,
    plot=bars("work_spearman_other", "Spearman with work, without multiple choice"),
    differences="""\
Here this experiment comes out otherwise than in the paper, and that is a property of the model.
The embedded model takes about as many rounds for every token, so that true output length itself
orders work well, and length as SSJF and LTR predict it nearly as well; on LLaDA2.1-mini code and
mathematics have long answers of few rounds and chats the contrary, and length orders nothing. So
length-based rankers, which harm the others in the paper, help them here, S³ excepted. DWISE's
estimate at admission is worse than theirs and its refined one better, even than the true length.
Measure your own model: how well true output tokens order its work says whether output length will
do.""",
    not_with={"sglang": "SGLang's plugin has no learned baselines"},
)
