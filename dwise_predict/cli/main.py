"""Entry points ``dwise`` and ``dwise-train``: verbs, and how errors are told.

Verbs import what they need when they run, so that help is immediate.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from dwise_predict.cli.diff import diff
from dwise_predict.cli.doctor import doctor
from dwise_predict.cli.evaluate import evaluate
from dwise_predict.cli.experiment import experiment
from dwise_predict.cli.inspect import inspect
from dwise_predict.cli.options import HELP_FLAGS
from dwise_predict.cli.paper import paper
from dwise_predict.cli.profile import profile
from dwise_predict.cli.pull import pull
from dwise_predict.cli.push import push
from dwise_predict.cli.report import report
from dwise_predict.cli.serve import serve
from dwise_predict.cli.simulate import simulate
from dwise_predict.cli.text import printable
from dwise_predict.cli.train import train
from dwise_predict.cli.verify import verify
from dwise_predict.cli.workload import workload
from dwise_predict.cli.zoo import zoo
from dwise_predict.errors import DwiseError

_USER_ERROR = 2
_INTERRUPTED = 130
# What a full, read-only or forbidden place on disk answers; any other OSError is a bug to be seen.
_STORAGE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
}


class _Verbs(click.Group):
    """A group that names every verb when it is given an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            from dwise_predict.validation import unknown_name

            raise click.UsageError(unknown_name("command", name, self.commands), ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Verbs,
    context_settings=HELP_FLAGS,
    epilog="Start with: dwise train --model tiny",
)
@click.version_option(package_name="dwise-predict", prog_name="dwise")
def cli() -> None:
    """Predict the denoising work of block-diffusion language model requests."""


for verb in (
    doctor,
    train,
    profile,
    workload,
    report,
    serve,
    simulate,
    paper,
    experiment,
    evaluate,
    inspect,
    verify,
    diff,
    push,
    pull,
    zoo,
):
    cli.add_command(verb)


def main() -> None:
    """Run ``dwise``."""
    _leave(_run(cli, "dwise", sys.argv[1:]))


def train_main() -> None:
    """Run ``dwise-train``, the same as ``dwise train``."""
    _leave(_run(train, "dwise-train", sys.argv[1:]))


def _leave(status: int) -> NoReturn:
    """End the process with ``status``, whatever native threads are doing.

    Arrow's pools may still be starting when a short process ends, and their destructors then abort
    it ("terminate called without an active exception"), which would turn a clear refusal into a
    crash. All files are written and closed by now.
    """
    for stream in (sys.stdout, sys.stderr):
        # The reader of a pipe may be gone; there is nobody left to tell.
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    os._exit(status)


def _run(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """Exit status: 0, 2 for what the user can put right, 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a dash must not end a run that has finished.
            stream.reconfigure(errors="replace")
    try:
        _no_empty_words(arguments)
        status = command.main(list(arguments), prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        return _refuse(_usage(error))
    except click.ClickException as error:
        return _refuse(error.format_message())
    except DwiseError as error:
        return _refuse(str(error))
    except click.Abort:
        click.echo("interrupted", err=True)
        return _INTERRUPTED
    except OSError as error:
        if error.errno not in _STORAGE_ERRORS:
            raise
        place = f" {error.filename}" if error.filename else ""
        advice = (
            "free or change the place and continue with --resume, nothing finished is lost"
            if _can_resume(command, arguments)
            else "free some space or choose another place, then run again"
        )
        return _refuse(f"cannot write{place}: {error.strerror}; {advice}")
    return status if isinstance(status, int) else 0


def _no_empty_words(arguments: Sequence[str]) -> None:
    """Refuse what a shell makes of a variable that is not set: ``--out ""`` would be this folder.

    Raises click.UsageError, naming the flag.
    """
    for before, word in zip(("", *arguments), arguments, strict=False):
        if word == "--":
            return
        flag = before if not word else word.removesuffix("=")
        if not word or (word.startswith("--") and word.count("=") == 1 and word.endswith("=")):
            name = flag if flag.startswith("-") else "an argument"
            raise click.UsageError(f"{name} is empty: give it a value, or leave it out")


def _can_resume(command: click.Command, arguments: Sequence[str]) -> bool:
    """Whether the run that ``arguments`` ask for keeps what is finished for ``--resume``."""
    words = list(arguments)
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    # Training from a profile is done in one go.
    from_profile = any(text.split("=")[0] == "--profile" for text in arguments)
    return any(param.name == "resume" for param in command.params) and not from_profile


def _refuse(message: str) -> int:
    click.echo(f"error: {printable(message)}", err=True)
    return _USER_ERROR


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        from dwise_predict.validation import unknown_name

        flags = [flag for param in error.ctx.command.get_params(error.ctx) for flag in param.opts]
        return unknown_name("flag", error.option_name, [f for f in flags if f.startswith("--")])
    where = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
    return error.format_message() + where
