"""``dwise simulate``: replay a workload under several schedulers and compare them."""

from __future__ import annotations

from typing import Any

import click

from dwise_predict.cli.options import HELP_FLAGS, SEED
from dwise_predict.simulation.limits import MAX_KV_TOKENS, MAX_REQUESTS, MAX_SLOTS

_EXAMPLES = """\b
Examples:
  dwise simulate --profile runs/tiny --policy fcfs --policy dwise --policy oracle
  dwise simulate --profile runs/tiny --policy fcfs --policy fcfs --former mixed_phase \\
      --policy dwise --policy-option estimate=residual --bundle tiny --out runs/sim --plot
  dwise simulate --profile runs/tiny --trace trace.jsonl --policy fcfs --policy dwise
  dwise simulate --synthetic 4096 --slots 128 --policy fcfs --policy noisy_oracle \\
      --correlation 0.71 --refined-correlation 0.89
"""

_ORDER = "dwise_predict.cli.simulate.order"
"""Where the context keeps the names of the given flags, in order."""


class _InOrder(click.Command):
    """Remembers in which order flags were given: some belong to the policy before them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


@click.command(
    cls=_InOrder,
    context_settings=HELP_FLAGS,
    short_help="Replay a workload under several schedulers.",
    epilog=_EXAMPLES,
)
@click.option(
    "--profile",
    metavar="DIR",
    help="Requests and rounds from this profile folder, or run folder that holds one.",
)
@click.option(
    "--trace",
    metavar="FILE",
    help="Arrivals and prompt lengths from a Mooncake .jsonl or Azure .csv trace; their rounds "
    "are drawn from --profile.",
)
@click.option(
    "--synthetic",
    type=click.IntRange(min=1, max=MAX_REQUESTS),
    metavar="N",
    help="N made-up requests.",
)
@click.option(
    "--split",
    type=click.Choice(["eval", "train", "all"]),
    help="Requests of the profile; predictors saw the train ones.  [default: eval]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=MAX_REQUESTS),
    metavar="N",
    help="First N of the trace.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    required=True,
    metavar="NAME",
    help="fcfs, hrrn, mlfq, ssjf, s3, ltr, trail, dwise, oracle or noisy_oracle. Repeatable: "
    "ratios are to the first.",
)
@click.option(
    "--policy-option",
    "policy_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of the --policy before it, e.g. estimate=residual, or hysteresis, lean, held_rows of its "
    "former. Repeatable.",
)
@click.option(
    "--former",
    "formers",
    multiple=True,
    type=click.Choice(["prefill_first", "mixed_phase", "single_phase"]),
    help="Batch former of the --policy before it; before the first --policy: of all.  [default: "
    "mixed_phase for dwise and oracles, else prefill_first]",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1, max=MAX_SLOTS),
    help="B.  [default: the profile's, else 32]",
)
@click.option(
    "--resident-multiplier",
    type=click.IntRange(min=1, max=MAX_SLOTS),
    default=8,
    show_default=True,
    help="k: at most k*B residents.",
)
@click.option(
    "--kv-tokens",
    type=click.IntRange(min=1, max=MAX_KV_TOKENS),
    help="Size of the KV pool.  [default: no limit]",
)
@click.option(
    "--prefill-chunk",
    metavar="N|whole",
    default="1",
    show_default=True,
    help="Blocks of a prompt that are processed together.",
)
@click.option(
    "--arrival",
    type=click.Choice(["burst", "burst+poisson", "poisson", "trace"]),
    help="[default: trace with --trace, else burst]",
)
@click.option("--rate", type=float, help="Requests a second of the poisson arrivals.")
@click.option(
    "--cost",
    metavar="BASE,SLOT,KV[,RESIDENT]|fitted",
    help="Time of a round in ms: BASE + SLOT * slots + KV * cached tokens + RESIDENT * residents.  "
    "[default: fitted to the profile's rounds, else 10,0.41,0.00096, near the paper's "
    "LLaDA2.1-mini]",
)
@click.option(
    "--predictor",
    type=click.Choice(["oracle", "noisy_oracle", "bundle", "run"]),
    help="Who estimates for the policies that need it.  [default: bundle with --bundle, run when "
    "--profile is a run folder]",
)
@click.option("--bundle", metavar="NAME|DIR", help="Predictors: a folder, a zoo name or a Hub id.")
@click.option(
    "--correlation",
    type=click.FloatRange(0, 1),
    metavar="RHO",
    help="Spearman correlation of the noisy oracle's estimates with the truth.",
)
@click.option(
    "--refined-correlation",
    type=click.FloatRange(0, 1),
    metavar="RHO",
    help="The same after the first denoising round.  [default: no second estimate]",
)
@click.option(
    "--seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Of arrivals, made-up requests, draws and noise.",
)
@click.option(
    "--out",
    metavar="DIR",
    help="Write a results folder per policy, replacing an earlier simulation's.",
)
@click.option("--plot", is_flag=True, help="Also write latency and round pictures (SVG) there.")
@click.pass_context
def simulate(ctx: click.Context, /, **flags: Any) -> None:
    """Replay a workload round by round under one or more schedulers, and compare them.

    Nothing is computed by a model: requests take the denoising rounds that were recorded or drawn,
    and a round takes what the cost model says.
    """
    from dwise_predict.cli.display import progress_on
    from dwise_predict.cli.simulate_flags import prepare
    from dwise_predict.cli.simulate_output import run

    run(prepare(flags, ctx.meta[_ORDER]), progress_on())
