"""``dwise pull``: get a bundle or a profile from the Hub."""

from __future__ import annotations

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.cli.sources import hub_access, hub_options

_EXAMPLES = """\b
Examples:
  dwise pull ORG/dwise-llada2.1-mini
  dwise pull ORG/dwise-llada2.1-mini@v1 --out bundles/llada2.1-mini
  dwise pull --profile ORG/dwise-llada2.1-mini-profile
"""


@click.command(
    context_settings=HELP_FLAGS, short_help="Get a bundle from the Hub.", epilog=_EXAMPLES
)
@click.argument("repo", metavar="ORG/NAME[@REVISION]")
@click.option("--profile", is_flag=True, help="The repository is a published profile.")
@click.option("--out", metavar="DIR", help="Also copy it into this folder.")
@hub_options
def pull(repo: str, profile: bool, out: str | None, cache_dir: str | None, offline: bool) -> None:
    """Download a bundle into the Hub's cache, check it and say which commit it is.

    A pull that was interrupted goes on with the files that are missing. What was pulled once
    loads without a network. Private repositories need 'hf auth login' or HF_TOKEN.
    """
    from dwise_predict.hub.address import parse_address

    address, access = parse_address(repo), hub_access(cache_dir, offline)
    if profile:
        from dwise_predict.profile_repo import copy_profile, fetch_profile

        found = fetch_profile(address, access)
        click.echo(f"profile  {found}")
        click.echo(f"folder   {found.folder if out is None else copy_profile(found.folder, out)}")
        return
    from dwise_predict.bundle import PredictorBundle

    bundle = PredictorBundle.from_pretrained(
        address.repo,
        revision=address.revision,
        local_files_only=access.local_files_only,
        cache_dir=access.cache_dir,
    )
    click.echo(f"bundle  {bundle.source}")
    if out is not None:
        bundle.save(out)
        click.echo(f"folder  {out}")
    commit = str(bundle.source).partition("@")[2]
    click.echo(f'pinned  PredictorBundle.from_pretrained("{address.repo}", revision="{commit}")')
