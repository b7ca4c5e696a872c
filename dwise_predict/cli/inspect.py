"""``dwise inspect``: what a bundle is valid for, and how good it is."""

from __future__ import annotations

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.cli.sources import hub_access, hub_options, open_bundle

_EXAMPLES = """\b
Examples:
  dwise inspect tiny
  dwise inspect runs/tiny/bundle
  dwise inspect ORG/dwise-llada2.1-mini@v1
"""


@click.command(context_settings=HELP_FLAGS, short_help="Check and show a bundle.", epilog=_EXAMPLES)
@click.argument("bundle")
@hub_options
def inspect(bundle: str, cache_dir: str | None, offline: bool) -> None:
    """Check the files of BUNDLE, then show its fingerprint and metrics.

    BUNDLE is a folder, a name of the zoo (tiny) or a Hub repository (ORG/NAME[@REVISION]).
    """
    from dwise_predict.cli.summary import print_bundle

    print_bundle(open_bundle(bundle, hub_access(cache_dir, offline)))
