"""``dwise report``: rebuild the HTML report of a run."""

from __future__ import annotations

from pathlib import Path

import click

from dwise_predict.cli.options import HELP_FLAGS, require_train_extra


@click.command(context_settings=HELP_FLAGS)
@click.argument("run", type=click.Path(path_type=Path))
def report(run: Path) -> None:
    """Rebuild report.html of the run folder RUN from its profile and bundle."""
    require_train_extra()
    from dwise_predict.errors import ReportError
    from dwise_predict.evaluation.report import check_finished, write_report
    from dwise_predict.files import locked
    from dwise_predict.run_folder import RunFolder

    folder = RunFolder(run)
    check_finished(folder)
    with locked(run, ReportError(f"another process is writing {run}; wait for it")):
        click.echo(f"report: {write_report(folder)}")
