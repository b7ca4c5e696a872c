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
    differences="""\
The same picture at another size: most of SGLang's rounds hold prompt blocks alone, nearly empty,
and DWISE fills them. Their share of the time is smaller, because long prompts have 57 blocks
here instead of more than 300, and because on a CPU an empty slot costs nothing: a round with one
block takes a tenth of a full one (a seventh on the paper's GPU). Rounds are fewer as the
workload has an eighth of the requests and a fifth of the rounds a request. DWISE leaves more
slots idle, at the end, when fewer requests than slots are left: that takes a larger part of a
workload of 16 requests a slot than of one of 32.""",
)
