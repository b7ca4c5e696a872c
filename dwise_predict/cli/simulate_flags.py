"""What the flags of ``dwise simulate`` mean."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml

from dwise_predict.errors import SimulationError
from dwise_predict.profile import Profile, read_profile
from dwise_predict.results.store import check_writable
from dwise_predict.run_folder import RunFolder
from dwise_predict.scheduling import POLICIES, FormerName, ResidencyLimits, RoundCost
from dwise_predict.simulation.arrivals import Pattern, arrival_times
from dwise_predict.simulation.estimates import TARGETS, NoisyOracle, Oracle, Predictor, Untold
from dwise_predict.simulation.fitting import GOOD_R_SQUARED, fit_round_cost
from dwise_predict.simulation.learned import LearnedRounds, bundle_estimates, run_estimates
from dwise_predict.simulation.limits import MAX_PREFILL_CHUNK, check_arrivals, check_cost
from dwise_predict.simulation.run import Arrivals, Setup, check_workload
from dwise_predict.simulation.sources import (
    Source,
    profile_source,
    read_trace,
    synthetic_source,
    trace_source,
)
from dwise_predict.validation import shortened, unknown_name

Flags = Mapping[str, Any]

PUBLISHED_COST = RoundCost(10.0, 0.41, 0.00096)
"""Near the paper's figures for LLaDA2.1-mini on a GH200, in ms."""

RECORD_FILE = "simulation.json"
"""Beside the results folders: what they are results of."""

GIVEN = (
    "profile",
    "trace",
    "limit",
    "split",
    "synthetic",
    "rate",
    "predictor",
    "bundle",
    "correlation",
    "refined_correlation",
)
"""Flags that :data:`RECORD_FILE` repeats as given; it tells what came of the others."""

_DEFAULT_SLOTS = 32
_LONGEST_OPTION = 1000
_RANKED_FORMER = {"dwise", "oracle", "noisy_oracle"}


@dataclass(frozen=True)
class Case:
    """One line of the comparison."""

    label: str
    setup: Setup
    predictor: Predictor


@dataclass(frozen=True)
class Simulation:
    """Everything that the flags ask for, checked.

    ``given`` are the flags :data:`GIVEN`; ``outdated`` names the runs of an earlier simulation in
    ``out`` that this one lacks; ``warnings`` say what the results must be read with.
    """

    source: Source
    arrivals: Arrivals
    limits: ResidencyLimits
    cost: RoundCost
    cost_note: str
    prefill_chunk: int | None
    cases: tuple[Case, ...]
    seed: int
    out: Path | None
    plot: bool
    given: Mapping[str, object]
    outdated: tuple[str, ...]
    warnings: tuple[str, ...]


def prepare(flags: Flags, order: Sequence[str]) -> Simulation:
    """Resolve flags; ``order`` names them as given, one entry each time.

    Raises:
        SimulationError: flags are missing, contradict each other or name what does not exist.
        ProfileError, BundleError, HubError, IncompatibleBundleError: of what they name.
    """
    setups = policy_setups(flags, order)
    _check_combination(flags)
    profile_folder, run_folder = _folders(flags["profile"])
    profile = None if profile_folder is None else read_profile(profile_folder)
    source = _source(flags, profile)
    cost, cost_note, warnings = _cost(flags["cost"], profile)
    slots = flags["slots"] or (profile.run.engine.slots if profile else _DEFAULT_SLOTS)
    limits = ResidencyLimits(
        slots,
        source.block_size,
        multiplier=flags["resident_multiplier"],
        kv_tokens=flags["kv_tokens"],
    )
    prefill_chunk = _prefill_chunk(flags["prefill_chunk"])
    check_workload(source.workload(prefill_chunk), limits)
    for setup in setups:
        setup.scheduler(limits, cost, prefill_chunk)
    out = None if flags["out"] is None else Path(flags["out"])
    cases = _cases(setups, flags, source, run_folder)
    return Simulation(
        source=source,
        arrivals=_arrivals(flags, source),
        limits=limits,
        cost=cost,
        cost_note=cost_note,
        prefill_chunk=prefill_chunk,
        cases=cases,
        seed=flags["seed"],
        out=out,
        plot=flags["plot"],
        given={name: flags[name] for name in GIVEN},
        outdated=() if out is None else _check_out(out, cases),
        warnings=warnings,
    )


def policy_setups(flags: Flags, order: Sequence[str]) -> list[Setup]:
    """Policies in the order given, each with the formers and options that follow it.

    Raises SimulationError.
    """
    given = {name: iter(flags[name]) for name in ("policies", "formers", "policy_options")}
    common: FormerName | None = None
    setups: list[tuple[str, FormerName | None, dict[str, object]]] = []
    for flag in order:
        if flag not in given:
            continue
        value = next(given[flag])
        if flag == "policies":
            if value not in POLICIES:
                raise SimulationError(unknown_name("--policy", value, POLICIES))
            setups.append((value, common, {}))
        elif flag == "formers":
            if setups:
                name, _, options = setups[-1]
                setups[-1] = (name, value, options)
            else:
                common = value
        else:
            if not setups:
                raise SimulationError(
                    f"--policy-option {value} comes before every --policy; put it after the one "
                    "that it is for"
                )
            key, parsed = _key_value(value)
            setups[-1][2][key] = parsed
    return [
        Setup(name, former or _default_former(name), options) for name, former, options in setups
    ]


def _default_former(policy: str) -> FormerName:
    return "mixed_phase" if policy in _RANKED_FORMER else "prefill_first"


def _key_value(text: str) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    if not separator or not key or not value:
        raise SimulationError(f"--policy-option {text}: expected KEY=VALUE")
    if len(value) > _LONGEST_OPTION:
        raise SimulationError(
            f"--policy-option {shortened(key)} has {len(value):,} characters; at most "
            f"{_LONGEST_OPTION:,} are read"
        )
    try:
        return key, yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SimulationError(
            f"--policy-option {key}: {shortened(value)} is no YAML value"
        ) from error


def _check_combination(flags: Flags) -> None:
    """Refuse flags that contradict each other or that nothing would read."""
    if flags["synthetic"] is not None:
        for name in ("profile", "trace", "split"):
            if flags[name] is not None:
                raise SimulationError(f"--synthetic makes its own requests: leave out --{name}")
    elif flags["profile"] is None:
        wanted = (
            "--trace also needs --profile, whose rounds it draws"
            if flags["trace"]
            else (
                "nothing to replay: give --profile DIR, --profile DIR with --trace FILE, or "
                "--synthetic N"
            )
        )
        raise SimulationError(wanted)
    if flags["limit"] is not None and flags["trace"] is None:
        raise SimulationError("--limit is for --trace")
    arrival, rate = _pattern(flags), flags["rate"]
    if arrival == "trace" and flags["trace"] is None:
        raise SimulationError("--arrival trace needs --trace FILE")
    if "poisson" in arrival:
        if rate is None:
            raise SimulationError(f"--arrival {arrival} needs --rate, in requests a second")
        if not (math.isfinite(rate) and rate > 0):
            raise SimulationError(f"--rate must be positive, not {rate:g}")
    elif rate is not None:
        raise SimulationError(f"--rate is for poisson arrivals; --arrival {arrival} has its own")
    if flags["plot"]:
        if flags["out"] is None:
            raise SimulationError("--plot needs --out DIR, where the pictures go")
        if find_spec("matplotlib") is None:
            raise SimulationError(
                "--plot needs matplotlib; install it with: pip install 'dwise-predict[train]'"
            )


def _check_out(out: Path, cases: Sequence[Case]) -> tuple[str, ...]:
    """Refuse a place that holds anything but an earlier simulation; its runs not among ``cases``.

    Only folders that the earlier simulation recorded as its own are named.
    """
    if out.exists() and not out.is_dir():
        raise SimulationError(f"--out {out} is a file; name a folder")
    # A process killed while it wrote the record leaves a temporary file.
    held = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if held - {f".{RECORD_FILE}.tmp"} and not (out / RECORD_FILE).is_file():
        raise SimulationError(
            f"--out {out} holds something else than a simulation: name a new or an empty folder"
        )
    labels = {case.label for case in cases}
    outdated = tuple(name for name in _recorded_runs(out) if name not in labels)
    for label in (*labels, *outdated):
        check_writable(out / label)
    return outdated


def _recorded_runs(out: Path) -> list[str]:
    """Runs of the earlier simulation in ``out`` whose folders are there."""
    path = out / RECORD_FILE
    if not path.is_file():
        return []
    try:
        runs = list(json.loads(path.read_bytes())["runs"])
    except OSError as error:
        raise SimulationError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SimulationError(
            f"{path} is damaged, so nobody knows what lies beside it: name another --out"
        ) from error
    return [entry.name for entry in sorted(out.iterdir()) if entry.name in runs]


def _pattern(flags: Flags) -> str:
    pattern: str = flags["arrival"] or ("trace" if flags["trace"] is not None else "burst")
    return pattern


def _folders(named: str | None) -> tuple[Path | None, Path | None]:
    """The profile folder, and the run folder if that is what was named."""
    if named is None:
        return None, None
    run = RunFolder(Path(named))
    return (run.profile, run.path) if run.profiled else (run.path, None)


def _source(flags: Flags, profile: Profile | None) -> Source:
    if profile is None:
        return synthetic_source(flags["synthetic"], flags["seed"])
    recorded = profile_source(profile, flags["split"] or "eval")
    if flags["trace"] is None:
        return recorded
    return trace_source(read_trace(Path(flags["trace"]), flags["limit"]), recorded, flags["seed"])


def _arrivals(flags: Flags, source: Source) -> Arrivals:
    pattern = _pattern(flags)
    if pattern == "trace" and source.arrival_s is not None:
        return Arrivals(pattern, source.arrival_s)
    with np.errstate(over="ignore"):  # infinite arrivals are refused right below
        seconds = arrival_times(cast(Pattern, pattern), len(source), flags["rate"], flags["seed"])
    try:
        check_arrivals(float(seconds.max()))
    except SimulationError as error:
        raise SimulationError(f"--rate {flags['rate']:g}: {error}") from error
    return Arrivals(pattern, seconds)


def _cost(flag: str | None, profile: Profile | None) -> tuple[RoundCost, str, tuple[str, ...]]:
    """The cost model, a line about it, and warnings."""
    if flag is None and profile is None:
        return PUBLISHED_COST, f"{_formula(PUBLISHED_COST)}, near the paper's LLaDA2.1-mini", ()
    if flag is None or flag == "fitted":
        if profile is None:
            raise SimulationError("--cost fitted needs --profile, whose rounds it is fitted to")
        fit = fit_round_cost(profile.rounds)
        try:
            check_cost(fit.cost)
        except SimulationError as error:
            raise SimulationError(
                f"the cost fitted to the profile's rounds, {_formula(fit.cost)}, cannot be: "
                f"{error}; give the model with --cost BASE,SLOT,KV"
            ) from error
        note = (
            f"{_formula(fit.cost)}, fitted to {fit.rounds} rounds: R2 {fit.r_squared:.3f}, "
            f"relative error {fit.median_error:.1%} at the median, {fit.p90_error:.1%} at p90"
        )
        if fit.good:
            return fit.cost, note, ()
        warning = (
            f"the fitted cost explains little of what the profile's rounds took (R2 "
            f"{fit.r_squared:.3f}, below {GOOD_R_SQUARED}), as when the machine was busy, so do "
            "not rely on the seconds: give --cost BASE,SLOT,KV, or profile again on an idle machine"
        )
        return fit.cost, note, (warning,)
    try:
        parts = [float(part) for part in flag.split(",")]
    except ValueError:
        parts = []
    if len(parts) not in (3, 4):
        raise SimulationError(
            f"--cost {shortened(flag)}: expected BASE,SLOT,KV or BASE,SLOT,KV,RESIDENT in ms, for "
            "example 10,0.41,0.00096, or fitted"
        )
    try:
        cost = RoundCost(*parts)
        check_cost(cost)
    except (SimulationError, ValueError) as error:
        raise SimulationError(f"--cost {flag}: {error}") from error
    return cost, f"{_formula(cost)}, as given", ()


def _formula(cost: RoundCost) -> str:
    return (
        f"{cost.base_ms:.4g} ms + {cost.slot_ms:.4g} ms a slot + {cost.kv_ms * 1000:.4g} us a "
        "KV token"
    ) + (f" + {cost.resident_ms:.4g} ms a resident" if cost.resident_ms else "")


def _prefill_chunk(flag: str) -> int | None:
    if flag == "whole":
        return None
    digits = flag.isascii() and flag.isdigit() and len(flag) <= len(str(MAX_PREFILL_CHUNK))
    if not digits or not 1 <= int(flag) <= MAX_PREFILL_CHUNK:
        raise SimulationError(
            f"--prefill-chunk {shortened(flag)}: expected a number of blocks from 1 to "
            f"{MAX_PREFILL_CHUNK:,}, or whole"
        )
    return int(flag)


def _cases(
    setups: Sequence[Setup], flags: Flags, source: Source, run_folder: Path | None
) -> tuple[Case, ...]:
    """Each setup with its predictor and a label of its own."""
    noisy = _noisy(flags, setups)
    learned = _learned(flags, setups, source, run_folder)
    cases: list[Case] = []
    for setup in setups:
        predictor: Predictor
        if TARGETS[setup.policy] == "nothing":
            predictor = Untold()
        elif setup.policy == "oracle" or (
            flags["predictor"] == "oracle" and not _noisy_only(setup)
        ):
            predictor = Oracle()
        elif noisy is not None and (_noisy_only(setup) or flags["predictor"] == "noisy_oracle"):
            predictor = noisy
        elif learned is not None:
            learned.check(TARGETS[setup.policy])
            predictor = learned
        else:
            raise SimulationError(
                f"policy {setup.policy} needs estimates: give --bundle, a run folder as --profile, "
                "--predictor oracle, or --predictor noisy_oracle with --correlation"
            )
        if setup.reads_curves and getattr(predictor, "curves", None) is None:
            raise SimulationError(
                f"policy {setup.policy} with estimate=residual follows the curves of a bundle's "
                "refiner, which only --bundle gives"
            )
        stem = setup.policy
        if setup.former != _default_former(setup.policy):
            stem += f"-{setup.former}"
        same = sum(
            case.setup.policy == setup.policy and case.setup.former == setup.former
            for case in cases
        )
        cases.append(Case(f"{stem}-{same + 1}" if same else stem, setup, predictor))
    return tuple(cases)


def _noisy_only(setup: Setup) -> bool:
    return setup.policy == "noisy_oracle"


def _noisy(flags: Flags, setups: Sequence[Setup]) -> NoisyOracle | None:
    wanted = flags["predictor"] == "noisy_oracle" or any(map(_noisy_only, setups))
    if not wanted:
        for name in ("correlation", "refined_correlation"):
            if flags[name] is not None:
                raise SimulationError(
                    f"--{name.replace('_', '-')} is for --policy or --predictor noisy_oracle"
                )
        return None
    if flags["correlation"] is None:
        raise SimulationError("noisy_oracle needs --correlation, between 0 and 1")
    return NoisyOracle(flags["correlation"], flags["refined_correlation"], flags["seed"])


def _learned(
    flags: Flags, setups: Sequence[Setup], source: Source, run_folder: Path | None
) -> LearnedRounds | None:
    """Estimates of trained predictors, if the flags name any."""
    kind, bundle = flags["predictor"], flags["bundle"]
    if bundle is not None and kind not in (None, "bundle"):
        raise SimulationError(f"--bundle does not go with --predictor {kind}")
    if bundle is not None:
        from dwise_predict.cli.sources import hub_access, open_bundle

        loaded = open_bundle(bundle, hub_access(None, False))
        return bundle_estimates(loaded, source, any(setup.reads_curves for setup in setups))
    if kind == "bundle":
        raise SimulationError("--predictor bundle needs --bundle NAME|DIR")
    if kind == "run" and run_folder is None:
        raise SimulationError(
            "--predictor run reads the estimates of a run folder: give one as --profile"
        )
    if run_folder is not None and kind in (None, "run"):
        if kind is None and not RunFolder(run_folder).trained:
            return None
        return run_estimates(run_folder, source)
    return None
