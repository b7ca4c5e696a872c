"""``dwise push``: publish a bundle or a profile on the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.cli.sources import hub_access, open_bundle

if TYPE_CHECKING:
    from dwise_predict.workload.schema import Request

_EXAMPLES = """\b
Examples:
  dwise push runs/tiny/bundle ORG/dwise-tiny --private
  dwise push runs/tiny/bundle ORG/dwise-tiny --revision v1
  dwise push --profile runs/tiny ORG/dwise-tiny-profile
"""


@click.command(
    context_settings=HELP_FLAGS, short_help="Publish a bundle on the Hub.", epilog=_EXAMPLES
)
@click.argument("source", metavar="FOLDER")
@click.argument("repo", metavar="ORG/NAME")
@click.option("--profile", is_flag=True, help="FOLDER is a profile, or the run folder of one.")
@click.option(
    "--with-prompts",
    is_flag=True,
    help="With --profile: publish prompts and answers, too (FOLDER is a run folder).",
)
@click.option("--private/--public", default=None, help="Visibility of a new repository.")
@click.option("--revision", metavar="BRANCH", help="Branch; made where missing.  [default: main]")
@click.option("--message", metavar="TEXT", help="Message of the commit.")
def push(
    source: str,
    repo: str,
    profile: bool,
    with_prompts: bool,
    private: bool | None,
    revision: str | None,
    message: str | None,
) -> None:
    """Publish the bundle FOLDER as the Hub repository ORG/NAME, in one commit.

    Repositories of bundles are called ORG/dwise-<model>. With --profile a profile becomes a data
    set repository that 'datasets' can load. Nothing is published that names a local path, host or
    user. Needs 'hf auth login' or HF_TOKEN with the right to write.
    """
    access = hub_access(None, False)
    if with_prompts and not profile:
        raise click.UsageError("--with-prompts belongs to --profile")
    if profile:
        from dwise_predict.profile_repo import push_profile, repo_files

        folder, prompts = _profile(Path(source), with_prompts)
        files = repo_files(folder, prompts)
        text = message or "Profile"
        done = push_profile(files, repo, text, private, revision, access.token)
    else:
        done = open_bundle(source, access).push_to_hub(
            repo, private=private, revision=revision, commit_message=message
        )
    click.echo(f"published  {repo}@{done.commit}")
    click.echo(f"at         {done.url}")


def _profile(folder: Path, with_prompts: bool) -> tuple[Path, list[Request] | None]:
    """Profile folder, and its workload where prompts are wanted."""
    from dwise_predict.errors import ProfileError
    from dwise_predict.run_folder import RunFolder
    from dwise_predict.workload.jsonl import read_jsonl

    run = RunFolder(folder)
    profile = run.profile if run.profile.is_dir() else folder
    if not with_prompts:
        return profile, None
    if not run.workload.is_file():
        raise ProfileError(
            f"{folder} holds no {run.workload.name}, so there are no prompts to publish; give the "
            "run folder, or leave --with-prompts out"
        )
    return profile, read_jsonl(run.workload)
