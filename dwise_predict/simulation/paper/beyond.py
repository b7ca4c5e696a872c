"""The levers beyond the paper at the paper's scale, over several seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import repeat
from pathlib import Path

from dwise_predict.files import write_text
from dwise_predict.simulation.arrivals import Pattern
from dwise_predict.simulation.beyond import LEVERS, Gain, Outcome, gains, serve
from dwise_predict.simulation.paper.situations import reference_situation
from dwise_predict.simulation.paper.workers import worker_pool

ARRIVALS: tuple[Pattern, ...] = ("burst", "burst+poisson")


def compare_levers(
    seeds: Sequence[int], processes: int, on_done: Callable[[int, int], None] | None = None
) -> dict[Pattern, list[Gain]]:
    """Gains of all of :data:`LEVERS` on the reference workload, one draw of it for each seed.

    ``on_done`` is called with the number of seeds served and their total, both arrivals counted.
    """
    found: dict[Pattern, list[Gain]] = {}
    done, total = 0, len(ARRIVALS) * len(seeds)
    with worker_pool(min(processes, len(seeds))) as pool:
        for arrival in ARRIVALS:
            outcomes: dict[str, list[Outcome]] = {name: [] for name in LEVERS}
            for served in pool.map(_serve_all, repeat(arrival), seeds):
                for name, outcome in served.items():
                    outcomes[name].append(outcome)
                done += 1
                if on_done is not None:
                    on_done(done, total)
            found[arrival] = gains(outcomes)
    return found


def write_gains(found: Mapping[Pattern, Sequence[Gain]], seeds: int, folder: Path) -> list[Path]:
    """Write ``beyond.json`` and ``beyond.md`` into ``folder``; returns their paths."""
    as_json, as_text = folder / "beyond.json", folder / "beyond.md"
    records = [
        {"arrival": arrival, "seeds": seeds} | asdict(gain)
        for arrival, listed in found.items()
        for gain in listed
    ]
    write_text(as_json, json.dumps(records, indent=1) + "\n")
    lines = [
        "# Beyond the paper",
        "",
        f"LLaDA2.1-mini's reference workload, {seeds} draws of workload, arrivals and prediction",
        "errors. *Closed* is the share of the distance in mean latency between the paper's preset",
        "and the oracle, with a 95% bootstrap interval over the draws; p99 and the largest p99 of",
        "any category are relative to the preset.",
    ]
    for arrival, listed in found.items():
        lines += [
            "",
            f"## {arrival}",
            "",
            "| options | mean (s) | closed | 95% interval | p99 | worst category's p99 |",
            "| --- | ---: | ---: | --- | ---: | ---: |",
        ]
        lines += [
            f"| {gain.name} | {gain.mean_s:.1f} | {gain.closed:.0%} "
            f"| {gain.closed_low:.0%} to {gain.closed_high:.0%} "
            f"| {gain.p99_ratio:.2f} | {gain.worst_p99_ratio:.2f} |"
            for gain in listed
        ]
    write_text(as_text, "\n".join(lines) + "\n")
    return [as_json, as_text]


def _serve_all(arrival: Pattern, seed: int) -> dict[str, Outcome]:
    situation = reference_situation(arrival, seed)
    return {name: serve(situation, levers) for name, levers in LEVERS.items()}
