"""``dwise verify``: whether a bundle is what was published, and still means the same here."""

from __future__ import annotations

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.cli.sources import hub_access, hub_options, open_bundle

_EXAMPLES = """\b
Examples:
  dwise verify tiny
  dwise verify runs/tiny/bundle
  dwise verify ORG/dwise-llada2.1-mini@v1
"""


@click.command(
    context_settings=HELP_FLAGS, short_help="Check a bundle's files and predictions.",
    epilog=_EXAMPLES,
)  # fmt: skip
@click.argument("bundle")
@hub_options
def verify(bundle: str, cache_dir: str | None, offline: bool) -> None:
    """Check hashes, schema, trees and tensors of BUNDLE, then repeat its stored predictions.

    BUNDLE is a folder, a name of the zoo (tiny) or a Hub repository (ORG/NAME[@REVISION]).
    Ends with status 2 when anything is wrong.
    """
    from dwise_predict.errors import BundleError

    loaded = open_bundle(bundle, hub_access(cache_dir, offline))
    config = loaded.config
    click.echo(f"bundle       {loaded.source}")
    click.echo(f"files        {len(config.files)} as they were written (size, SHA-256, digest)")
    click.echo(f"format       {config.format_version}, every field as the schema says")
    click.echo(f"admission    {config.admission.trees} well-formed trees")
    click.echo(
        f"refinement   {len(config.refiner.tensors())} finite tensors of the configured shapes"
    )
    if loaded.smoke is None:
        click.echo(f"predictions  none stored in format {config.format_version}")
        return
    differences = loaded.verify()
    if differences:
        raise BundleError(
            f"{loaded.source} predicts something else here than when it was made: "
            f"{'; '.join(differences)}; its files are intact, so compare the versions in "
            "provenance.json with those installed"
        )
    click.echo(f"predictions  {len(loaded.smoke.words)} stored requests predicted again: the same")
