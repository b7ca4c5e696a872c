"""``dwise profile launch-files``: ready files that start campaigns on more than one machine."""

from __future__ import annotations

from pathlib import Path

import click

from dwise_predict.cli.options import HELP_FLAGS


@click.command(
    "launch-files",
    context_settings=HELP_FLAGS,
    short_help="Write launch files for a node, Slurm and Kubernetes.",
    epilog="Each file says at its beginning how it is used.",
)
@click.option("--out", required=True, metavar="DIR", help="Folder to write them into.")
def launch_files(out: str) -> None:
    """Write files that start a campaign on one GPU, a node, Slurm and Kubernetes."""
    from dwise_predict.files import write_text
    from dwise_predict.launch import NAMES, launch_file

    for name in NAMES:
        path = Path(out) / name
        write_text(path, launch_file(name))
        if path.suffix == ".sh":
            path.chmod(0o755)
        click.echo(str(path))
