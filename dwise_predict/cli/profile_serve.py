"""``dwise profile serve``: an SGLang server that a recipe describes and that records."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.errors import EngineError, ProfileError

if TYPE_CHECKING:
    from dwise_predict.profile import Batching

_EXAMPLES = """\b
Examples:
  dwise profile serve --model llada2.1-mini --recording /shared/rec/0 --host 0.0.0.0
  dwise profile serve --model llada2.1-mini --set engine.sglang.tp_size=2 --recording rec -- \\
    --dist-timeout 3600
Everything after -- goes to sglang.launch_server.
"""


@click.command(
    "serve",
    context_settings=HELP_FLAGS,
    short_help="Start a server of the recipe that records.",
    epilog=_EXAMPLES,
)
@click.option(
    "--model", required=True, metavar="NAME|RECIPE.yaml", help="Built-in recipe, or a file."
)
@click.option(
    "--recording", required=True, metavar="DIR", help="Folder of its own that it records into."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(1, 65_535), help="[default: engine.sglang.port]")
@click.option(
    "--batching",
    type=click.Choice(["stock", "mixed"]),
    default="stock",
    show_default=True,
    help="Rounds as SGLang forms them, or with prompts and outputs mixed.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a recipe key."
)
@click.argument("server_arguments", nargs=-1, type=click.UNPROCESSED)
def profile_serve(
    model: str,
    recording: str,
    host: str,
    port: int | None,
    batching: Batching,
    overrides: tuple[str, ...],
    server_arguments: tuple[str, ...],
) -> None:
    """Start sglang.launch_server as the recipe says, recording every request.

    dwise train and dwise profile send it requests with --server.
    """
    from dwise_predict.engines.sglang_engine import arguments
    from dwise_predict.recipe import SglangSettings, load_recipe

    recipe = load_recipe(model, overrides)
    folder = Path(recording)
    if folder.exists() and not _may_record(folder):
        raise ProfileError(
            f"--recording {folder} is no recording, and not empty: choose another folder"
        )
    if find_spec("sglang") is None:
        raise EngineError("SGLang is not installed here: pip install 'dwise-predict[sglang]'")
    config = arguments.write_algorithm_config(recipe.decoding, folder)
    settings = recipe.engine.sglang or SglangSettings()
    address = {"host": host, "port": port or settings.port}
    flags = arguments.command_flags({**arguments.server_arguments(recipe, config), **address})
    # Whatever else this shell asks of the plugin is not for a campaign.
    own = {name: value for name, value in os.environ.items() if not name.startswith("DWISE_")}
    variables = arguments.plugin_variables(folder, recipe.engine.slots, batching)
    program = [sys.executable, "-m", "sglang.launch_server"]
    os.execve(sys.executable, [*program, *flags, *server_arguments], own | variables)


def _may_record(folder: Path) -> bool:
    """Whether it is empty, a recording, or what a start that failed left of one."""
    from dwise_predict.engines.sglang_engine.arguments import ALGORITHM_FILE
    from dwise_predict.recording import HEADER

    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir()}
    return HEADER in names or names <= {ALGORITHM_FILE}
