"""``dwise inspect``: what a bundle is valid for, and how good it is."""

from __future__ import annotations

from pathlib import Path

import click

from dwise_predict.cli.options import HELP_FLAGS


@click.command(context_settings=HELP_FLAGS, short_help="Check and show a bundle.")
@click.argument("bundle", type=click.Path(path_type=Path))
def inspect(bundle: Path) -> None:
    """Check the files of the folder BUNDLE, then show its fingerprint and metrics."""
    from dwise_predict.cli.summary import print_bundle
    from dwise_predict.errors import BundleError
    from dwise_predict.run_folder import RunFolder

    if RunFolder(bundle).bundle.is_dir():
        raise BundleError(f"{bundle} is a run folder; its bundle is {RunFolder(bundle).bundle}")
    print_bundle(bundle)
