"""Hooks of the documentation's build (``make docs``)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import click

from dwise_predict.cli.main import cli

_log = logging.getLogger("mkdocs.hooks.docs")

# What Markdown makes of the docstrings' :class:`~dwise_predict.scheduling.Arrived`.
_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):<code>(~?)([\w.]+)</code>")
_FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*")
_NOT_FETCHED = re.compile(r'rel="(?:canonical|alternate|next|prev)"')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what every command says of itself where a page has the comment ``<!-- commands -->``."""
    mark = "<!-- commands -->"
    if mark not in markdown:
        return markdown
    return markdown.replace(mark, "\n".join(_commands(cli, "dwise")))


def _commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[str]:
    settings = {**command.context_settings, "terminal_width": 84}
    context = click.Context(command, parent, name, **settings)
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            yield from _commands(command.commands[verb], verb, context)


def on_page_content(html: str, **_: Any) -> str:
    """Turn roles into links to the reference, or into code where it has no such entry."""

    def link(found: re.Match[str]) -> str:
        short, name = found.groups()
        shown = f"<code>{name.rpartition('.')[2] if short else name}</code>"
        if not name.startswith("dwise_predict."):
            return shown
        return f'<autoref optional identifier="{name}">{shown}</autoref>'

    return _ROLE.sub(link, html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Warn, which a strict build refuses, of anything that readers' browsers would fetch."""
    for tag in _FETCHED.findall(output):
        if not _NOT_FETCHED.search(tag):
            _log.warning("%s fetches from elsewhere: %s", page.file.src_uri, tag)
    return output
