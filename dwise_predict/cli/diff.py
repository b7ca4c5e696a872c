"""``dwise diff``: how two bundles differ."""

from __future__ import annotations

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.cli.sources import hub_access, hub_options, open_bundle

_EXAMPLES = """\b
Examples:
  dwise diff tiny runs/tiny/bundle
  dwise diff ORG/dwise-llada2.1-mini@v1 ORG/dwise-llada2.1-mini@v2
"""


@click.command(
    context_settings=HELP_FLAGS, short_help="Show how two bundles differ.", epilog=_EXAMPLES
)
@click.argument("a")
@click.argument("b")
@hub_options
@click.pass_context
def diff(ctx: click.Context, a: str, b: str, cache_dir: str | None, offline: bool) -> None:
    """Show how bundle B differs from bundle A.

    Both are a folder, a name of the zoo (tiny) or a Hub repository (ORG/NAME[@REVISION]).
    Ends with status 0 when they predict the same, and 1 when they do not.
    """
    from dwise_predict.cli.comparison import print_comparison

    access = hub_access(cache_dir, offline)
    same = print_comparison(open_bundle(a, access), open_bundle(b, access))
    ctx.exit(0 if same else 1)
