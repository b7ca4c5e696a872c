"""Keeps local paths, host and user names out of what is published."""

from __future__ import annotations

import contextlib
import getpass
import json
import re
import shlex
import socket
from collections.abc import Iterator, Mapping

# An absolute or home path of at least two components, or one on a Windows drive; not a URL.
_PATH = re.compile(
    r"(?<![\w:/.\\~-])(?:~(?=/)|/[\w.@+-]+(?=/))(?:/[\w.@+-]*)+|\b[A-Za-z]:\\[^\s\"']*"
)
_ROOTED = re.compile(r"/|~|[A-Za-z]:[/\\]")
_MIN_NAME = 3
_PLAIN_WORD = re.compile(r"[a-z]+")


def public_command(command: str) -> str:
    """A command line without local paths, host or user name.

    Paths keep their last component; names become ``<host>`` and ``<user>``. The program and its
    verb stay as they are, even where the user is called like them.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # an unclosed quote: the text of a command that no shell ran
        words = command.split()
    cleaned = [_without_folders(word) for word in words]
    for name, placeholder in _names().items():
        pattern = _whole_word(name)
        cleaned[2:] = [pattern.sub(placeholder, word) for word in cleaned[2:]]
    return shlex.join(cleaned)


def private_finding(texts: Mapping[str, str], command: str = "") -> str | None:
    """Say which of the texts (by file name) holds a local path, or names this host or user.

    A name that is a plain word (``math``, ``root``) is searched in the command alone: a user may
    well be called like a model's publisher or a prompt category. Others (``gpu42.lab``) are
    searched everywhere.

    Returns:
        The first finding as a sentence with its remedy; None when there is none.
    """
    telling = {name: kind for name, kind in _names().items() if not _PLAIN_WORD.fullmatch(name)}
    for file, text in texts.items():
        for string in _searched(file, text):
            if match := _PATH.search(string):
                return (
                    f"{file} would publish the local path {match.group()!r}; name models, "
                    "workloads and categories without folders"
                )
            for name, placeholder in telling.items():
                if _whole_word(name).search(string):
                    return (
                        f"{file} would publish this machine's {placeholder[1:-1]} {name!r}; "
                        "rename the model folder, workload or category that is called so"
                    )
    arguments = " ".join(shlex.split(command)[2:])
    for name, placeholder in _names().items():
        if _whole_word(name).search(arguments):
            return (
                f"the recorded command names this machine's {placeholder[1:-1]} {name!r}; "
                "clean it with public_command"
            )
    return None


def _without_folders(word: str) -> str:
    flag, equals, value = word.rpartition("=")
    if _ROOTED.match(value):
        # A whole word is a path even where its folders have names with spaces.
        return flag + equals + re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return _PATH.sub(_last_component, word)


def _searched(file: str, text: str) -> Iterator[str]:
    """Strings of a JSON file, decoded, because an escaped quote looks like a Windows path."""
    yield from _strings(json.loads(text)) if file.endswith(".json") else (text,)


def _strings(value: object) -> Iterator[str]:
    """Every string in decoded JSON, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *_strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _last_component(match: re.Match[str]) -> str:
    return re.split(r"[/\\]", match.group().rstrip("/\\"))[-1]


def _whole_word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def _names() -> dict[str, str]:
    """Names that identify this machine, with placeholders; very short ones identify nobody."""
    host = socket.gethostname()
    names = {host: "<host>", host.split(".")[0]: "<host>"}
    # An id without a user entry, as in many containers, has no name to hide.
    with contextlib.suppress(KeyError, OSError):
        names[getpass.getuser()] = "<user>"
    return {name: place for name, place in names.items() if len(name) >= _MIN_NAME}
