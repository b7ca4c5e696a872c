"""What ``dwise simulate`` prints and writes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.table import Table

from dwise_predict.cli.simulate_flags import RECORD_FILE, Case, Simulation
from dwise_predict.cli.terminal import output_console
from dwise_predict.errors import ResultsError
from dwise_predict.evaluation.facts import UNDEFINED
from dwise_predict.files import locked, write_bytes
from dwise_predict.progress import Progress
from dwise_predict.results import Results, Summary, write_results
from dwise_predict.results.store import remove_results
from dwise_predict.simulation.run import simulate
from dwise_predict.simulation.timeline import Timeline

_PICTURES = ("latency_cdf.svg", "latency_bars.svg", "rounds.svg")
_TIMELINE_ROUNDS = 90
_LONG_S = 1000.0
"""From here on seconds are told without decimals."""


def run(simulation: Simulation, progress: Progress) -> None:
    """Replay every case, print the comparison and write what was asked for.

    An earlier simulation in the same place is left alone until every case was replayed.
    """
    with nullcontext() if simulation.out is None else _holding(simulation.out):
        _run(simulation, progress)


def _run(simulation: Simulation, progress: Progress) -> None:
    for warning in simulation.warnings:
        progress.note(f"warning: {warning}")
    results: dict[str, Results] = {}
    timelines: dict[str, Timeline] = {}
    for case in simulation.cases:
        timeline = Timeline() if simulation.plot else None
        results[case.label] = _replay(simulation, case, timeline, progress)
        if timeline is not None:
            timelines[case.label] = timeline
    if simulation.out is not None:
        pictures = _plots(simulation, results, timelines) if simulation.plot else {}
        _write_all(simulation.out, simulation, results, pictures)
    console = output_console()
    for line in heading(simulation):
        console.print(line, soft_wrap=True)
    summaries = {label: run.summary for label, run in results.items()}
    for table in (latency_table, rounds_table):
        console.print()
        console.print(table(simulation.cases, summaries))
    if simulation.out is not None:
        console.print(f"\nresults   {simulation.out}", soft_wrap=True)


def _write_all(
    out: Path, simulation: Simulation, results: Mapping[str, Results], pictures: dict[str, bytes]
) -> None:
    # The record comes first: without it the folder would not be known as a simulation's.
    content = json.dumps(record(simulation), indent=2) + "\n"
    _write(out, {RECORD_FILE: content.encode()})
    for label in simulation.outdated:
        remove_results(out / label)
    for label, run in results.items():
        write_results(out / label, run)
    _write(out, pictures)
    for name in set(_PICTURES) - set(pictures):
        (out / name).unlink(missing_ok=True)


def heading(simulation: Simulation) -> list[str]:
    """What was simulated: what all runs have in common, then each run."""
    limits, arrivals = simulation.limits, simulation.arrivals
    pool = "unlimited KV" if limits.kv_tokens is None else f"{limits.kv_tokens} KV tokens"
    chunk = simulation.prefill_chunk
    prompts = "whole prompts at once" if chunk is None else f"{chunk} prompt blocks at once"
    return [
        f"workload  {simulation.source.name}",
        f"arrivals  {arrivals.pattern}, the last after {arrivals.seconds.max():.6g} s",
        f"server    {limits.slots} slots, at most {limits.cap} residents, {pool}, "
        f"{limits.block_size}-token blocks" + ("" if chunk == 1 else f", {prompts}"),
        f"round     {simulation.cost_note}",
        *(f"run       {_described(case)}" for case in simulation.cases),
    ]


def _described(case: Case) -> str:
    setup = case.setup
    options = "".join(f", {name}={value}" for name, value in setup.options.items())
    return (
        f"{case.label}: {setup.policy} on {setup.former}{options}; estimates: {case.predictor.name}"
    )


def latency_table(cases: tuple[Case, ...], summaries: Mapping[str, Summary]) -> Table:
    """Latencies, one line per case, each with the factor by which it beats the first case's."""
    table = _table("run", "mean s", "p50 s", "p99 s", "1st block s", "req/s")
    first = summaries[cases[0].label]
    for case in cases:
        summary = summaries[case.label]
        ours, base = summary.latency_s, first.latency_s
        pairs = [(ours.mean, base.mean), (ours.p50, base.p50), (ours.p99, base.p99)]
        cells = [_with_factor(*pair) for pair in pairs]
        if summary.first_block_s is None or first.first_block_s is None:
            cells.append(UNDEFINED)
        else:
            cells.append(_with_factor(summary.first_block_s.mean, first.first_block_s.mean))
        table.add_row(case.label, *cells, f"{summary.throughput_rps:.3g}")
    return table


def rounds_table(cases: tuple[Case, ...], summaries: Mapping[str, Summary]) -> Table:
    """What the rounds looked like, one line per case."""
    table = _table(
        "run", "rounds", "prompt-only", "of the time", "slots filled", "preemptions / request"
    )  # fmt: skip
    for case in cases:
        summary = summaries[case.label]
        table.add_row(
            case.label,
            f"{summary.rounds:,}",
            f"{summary.prefill_only_rounds:.1%}",
            f"{summary.prefill_only_time:.1%}",
            f"{summary.filled_slots:.1f}",
            f"{summary.preemptions_per_request:.2f}",
        )
    return table


def record(simulation: Simulation) -> dict[str, object]:
    """What it takes to run the simulation again."""
    limits = simulation.limits
    return {
        "library_version": version("dwise-predict"),
        "workload": simulation.source.name,
        **simulation.given,
        "arrival": simulation.arrivals.pattern,
        "seed": simulation.seed,
        "slots": limits.slots,
        "block_size": limits.block_size,
        "resident_multiplier": limits.multiplier,
        "kv_tokens": limits.kv_tokens,
        "prefill_chunk": simulation.prefill_chunk,
        "cost": asdict(simulation.cost),
        "runs": {
            case.label: {
                "policy": case.setup.policy,
                "former": case.setup.former,
                "options": dict(case.setup.options),
                "predictor": case.predictor.name,
            }
            for case in simulation.cases
        },
    }


def _replay(
    simulation: Simulation, case: Case, timeline: Timeline | None, progress: Progress
) -> Results:
    with progress.task(case.label, len(simulation.source)) as advance:
        return simulate(
            simulation.source,
            simulation.arrivals,
            case.setup,
            simulation.limits,
            simulation.cost,
            case.predictor,
            simulation.prefill_chunk,
            timeline,
            lambda _: advance(1),
        )


@contextmanager
def _holding(out: Path) -> Iterator[None]:
    """Hold the folder against other processes, from before the replay on."""
    busy = ResultsError(f"another process is writing {out}: wait for it, or choose another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(out, error) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise _cannot_write(out, PermissionError(0, "Permission denied"))
    with locked(out, busy):
        yield


def _cannot_write(out: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot write to {out}: {error.strerror}; free some space or choose another --out"
    )


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    try:
        for name, content in contents.items():
            write_bytes(folder / name, content)
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=not place)
    return table


def _with_factor(ours: float, base: float) -> str:
    seconds = f"{ours:.4g}" if ours < _LONG_S else f"{ours:.0f}"
    return f"{seconds} {base / ours:.2f}×"


def _plots(
    simulation: Simulation, results: Mapping[str, Results], timelines: Mapping[str, Timeline]
) -> dict[str, bytes]:
    from dwise_predict.evaluation import results_plots as plots

    latencies = {
        label: run.requests["finished_s"].to_numpy() - run.requests["arrival_s"].to_numpy()
        for label, run in results.items()
    }
    percentiles = {label: run.summary.latency_s for label, run in results.items()}
    panels = [
        plots.panel(
            label,
            timelines[label],
            simulation.limits.slots,
            _quarter_done(run),
            _TIMELINE_ROUNDS,
        )
        for label, run in results.items()
    ]
    contents = (
        plots.latency_cdf(list(latencies.items())),
        plots.latency_bars(
            [(label, latency.p50, latency.p99) for label, latency in percentiles.items()]
        ),
        plots.round_timeline(panels),
    )
    return dict(zip(_PICTURES, contents, strict=True))


def _quarter_done(run: Results) -> int:
    """The round in which a quarter of the requests are finished; start and end are untypical."""
    moment = np.quantile(run.requests["finished_s"].to_numpy(), 0.25)
    return int(np.searchsorted(run.rounds["start_s"].to_numpy(), moment))
