"""``dwise evaluate``: how a bundle does on new traffic."""

from __future__ import annotations

from pathlib import Path

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.cli.sources import (
    PROFILE_NAME,
    find_profile,
    hub_access,
    hub_options,
    open_bundle,
)

_EXAMPLES = """\b
Examples:
  dwise evaluate --bundle tiny --profile runs/mine
  dwise evaluate --bundle runs/tiny/bundle --profile live-profile --output drift.json
  dwise evaluate --bundle ORG/dwise-llada2.1-mini@v1 --profile hub:ORG/live
"""


@click.command(
    context_settings=HELP_FLAGS, short_help="Score a bundle on new traffic.", epilog=_EXAMPLES
)
@click.option("--bundle", required=True, help="Name in the zoo, Hub repository or folder.")
@click.option(
    "--profile", required=True, metavar=PROFILE_NAME, help="Requests that were served since."
)
@click.option(
    "--trained-on",
    multiple=True,
    metavar=PROFILE_NAME,
    help="A profile that the bundle was trained on: its training prompts are left out. The one "
    "beside the bundle is found without. Repeatable.",
)
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write JSON.",
)
@hub_options
@click.pass_context
def evaluate(
    ctx: click.Context,
    bundle: str,
    profile: str,
    trained_on: tuple[str, ...],
    output: Path | None,
    cache_dir: str | None,
    offline: bool,
) -> None:
    """Score a bundle on a profile of new requests, and say whether to refresh it.

    Ends with status 0 when it holds or more requests are needed to tell, and 1 when it should be
    recalibrated or refreshed (dwise train --init-from).
    """
    from dwise_predict.cli.evaluation_output import print_evaluation
    from dwise_predict.evaluate import evaluate_bundle
    from dwise_predict.files import write_text
    from dwise_predict.profile import read_profile

    if output is not None and not output.absolute().parent.is_dir():
        raise click.BadParameter(
            f"the folder {output.parent} does not exist", param_hint="--output"
        )
    access = hub_access(cache_dir, offline)
    loaded = open_bundle(bundle, access)
    place = find_profile(profile, access)
    given = [read_profile(find_profile(name, access).folder) for name in trained_on]
    found = evaluate_bundle(loaded, read_profile(place.folder), str(place), given)
    print_evaluation(found)
    if output is not None:
        write_text(output, found.model_dump_json(indent=1) + "\n")
    ctx.exit(1 if found.drift.verdict.advice in ("recalibrate", "refresh") else 0)
