"""``dwise profile launch-files``: ready files that start campaigns on more than one machine."""

from __future__ import annotations

from pathlib import Path

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.errors import DwiseError


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

    paths = [Path(out) / name for name in NAMES]
    if edited := [p for p in paths if p.exists() and not _is_as_written(p)]:
        raise DwiseError(
            f"{', '.join(map(str, edited))} would be overwritten and is not as it was written: "
            "choose another --out, or move it away"
        )
    for path, name in zip(paths, NAMES, strict=True):
        write_text(path, launch_file(name))
        if path.suffix == ".sh":
            path.chmod(0o755)
        click.echo(str(path))


def _is_as_written(path: Path) -> bool:
    from dwise_predict.launch import launch_file

    return path.is_file() and path.read_bytes() == launch_file(path.name).encode()
