"""``dwise profile merge``: one profile folder of the recordings of several servers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from dwise_predict.cli.options import HELP_FLAGS, SEED
from dwise_predict.errors import ProfileError

_EXAMPLES = """\b
Examples:
  dwise profile merge rec/0 rec/1 --workload runs/llada2.1-mini --out profile
  dwise profile merge rec/0 rec/1 --workload prompts.jsonl --out profile
  dwise profile merge live --out live-profile      # live traffic, without its prompts
"""


@click.command(
    context_settings=HELP_FLAGS,
    short_help="Join recordings into a profile.",
    epilog=_EXAMPLES,
)
@click.argument("recordings", nargs=-1, required=True, metavar="RECORDING…")
@click.option(
    "--workload",
    metavar="RUN|FILE.jsonl",
    help="The requests: a run folder, or the file that was served. Left out: live traffic.",
)
@click.option("--out", required=True, metavar="DIR", help="New profile folder.")
@click.option(
    "--seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Of the split, without a run folder.",
)
def merge(recordings: tuple[str, ...], workload: str | None, out: str, seed: int) -> None:
    """Join recordings into one profile folder, and say what was recorded twice or is missing.

    Of requests recorded several times, the record of the last folder given counts.
    """
    folders, target = [Path(name) for name in recordings], Path(out)
    if target.exists() and (target.is_file() or any(target.iterdir())):
        raise ProfileError(f"{target} exists and is not empty: choose another --out")
    from dwise_predict.merging import merge_live, merge_workload

    if workload is None:
        merged = merge_live(folders, target, seed)
    else:
        merged = merge_workload(folders, Path(workload), target, seed, _again(folders, workload))
    click.echo(f"{merged.requests} requests of {_count(len(folders), 'recording')}")
    if merged.joined.repeated:
        differing = merged.joined.differing
        repeated = _count(merged.joined.repeated, "request")
        click.echo(
            f"{repeated} recorded more than once, the last counts; "
            f"{len(differing)} with other labels{_examples(differing)}"
        )
    click.echo(f"profile: {target}")


def _again(recordings: Sequence[Path], workload: str) -> str:
    """How missing requests are served again."""
    found = [word for folder in recordings for word in ("--recording", str(folder))]
    if Path(workload).is_dir():
        flags = ["--model", f"{workload}/recipe.yaml", "--out", workload, "--resume", *found]
    else:
        flags = ["--model", "MODEL", "--workload", workload, *found]
    return shlex.join(["dwise", "profile", *flags, "--server", "URL"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _examples(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f" ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
