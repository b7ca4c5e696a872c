"""The doctor's list on a terminal, and the refusal to start while something is missing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dwise_predict.errors import EngineError

if TYPE_CHECKING:
    from dwise_predict.cli.options import RunRequest
    from dwise_predict.doctor import Finding
    from dwise_predict.engines.sglang_engine.fleet import Fleet

_LABELS = {"ok": "OK", "warn": "WARN", "missing": "MISSING"}


def lines(findings: Sequence[Finding]) -> list[str]:
    """One line a finding, and below it what to do."""
    width = max(len(finding.check) for finding in findings)
    listed = []
    for finding in findings:
        listed.append(f"{_LABELS[finding.status]:<7}  {finding.check:<{width}}  {finding.message}")
        if finding.remedy:
            listed.append(f"{'':<7}  {'':<{width}}  -> {finding.remedy}")
    return listed


def require_ready(run: RunRequest, command: str, fleet: Fleet, again: Sequence[str]) -> None:
    """Examine the machine before a run serves with SGLang; stop when something is missing.

    ``command`` is what runs, ``again`` the flags of ``fleet``, with which the doctor looks again.

    Raises EngineError after everything that is missing was listed.
    """
    from dwise_predict.run_folder import RunFolder

    if run.recipe.engine.name != "sglang" or RunFolder(run.out).profiled:
        return
    if fleet.recordings and not fleet.servers:
        return  # nothing is served
    from dwise_predict.doctor import examine

    findings = examine(run.recipe, run.out, fleet)
    short = [finding for finding in findings if finding.status == "missing"]
    shown = findings if short else [f for f in findings if f.status == "warn"]
    for line in lines(shown) if shown else []:
        click.echo(line, err=True)
    if short:
        look = shlex.join(["dwise", "doctor", *run.flags, *again])
        raise EngineError(
            f"{len(short)} of {len(findings)} checks failed, nothing was started. Put right what "
            f"is MISSING above, look again with\n  {look}\n"
            f"and then run\n  {command}"
        )
