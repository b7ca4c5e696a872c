"""Table 3: what is in a round."""

from __future__ import annotations

from dwise_predict.experiments.case import BURST, Case
from dwise_predict.experiments.comparison import comparison
from dwise_predict.experiments.experiment import Column
from dwise_predict.experiments.plots import bars

EXPERIMENT = comparison(
    name="rounds",
    source="Table 3",
    title="What is in a round",
    cases=[Case("SGLang", BURST), Case("DWISE", BURST)],
    columns=(
        Column("rounds", "rounds", ",.0f"),
        Column("prefill_only_rounds_pct", "prefill-only rounds (%)", ".1f"),
        Column("prefill_only_time_pct", "prefill-only time (%)", ".1f"),
        Column("idle_slots_pct", "idle slots (%)", ".1f"),
        Column("filled_slots", "filled slots a round", ".1f"),
    ),
    plot=bars("idle_slots_pct", "idle slots (%)"),
    differences="",
)
