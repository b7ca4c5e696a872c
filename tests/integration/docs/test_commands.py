"""Every command, flag, file, variable and metric that the documentation names exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dwise_predict.cli.main import cli
from dwise_predict.plugin.settings import VARIABLES
from tests.docs_pages import PAGES, ROOT, blocks, commands, prose

_INLINE = re.compile(r"`([^`\n]+)`")
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
_METRICS = (ROOT / "dwise_predict/plugin/metrics.py").read_text()
_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
names = [str(page.relative_to(ROOT)) for page in PAGES]


def words_of(command: str) -> list[str]:
    words = shlex.split(re.sub(r"\$\w+", "1", command))
    while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] == "time"):
        words.pop(0)
    return words


def written(page: Path) -> Iterator[list[str]]:
    """Complete commands: those of blocks."""
    for block in blocks(page, "sh", "console", "bash"):
        for command in commands(block.body, prompted=block.language == "console"):
            if words := words_of(command):
                yield words


def mentioned(page: Path) -> Iterator[list[str]]:
    """Commands in the text, often without all of their arguments."""
    for inline in _INLINE.findall(prose(page)):
        if re.match(r"(dwise(-train)? |make |python (benchmarks|examples)/)", inline):
            yield words_of(inline)


def verb_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that ``dwise …`` names, and its arguments."""
    if Path(words[0]).name == "dwise-train":
        return cli.commands["train"], words[1:]
    command: click.Command = cli
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"{' '.join(words)}: no such command"
        command = command.commands[rest.pop(0)]
    return command, rest


def is_dwise(words: list[str]) -> bool:
    return Path(words[0]).name in ("dwise", "dwise-train")


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_in_blocks_are_accepted(page: Path) -> None:
    for words in written(page):
        if not is_dwise(words):
            continue
        command, rest = verb_of(words)
        try:
            command.make_context(command.name, list(rest))
        except click.exceptions.Exit:
            continue  # --help, --version
        except click.UsageError as error:
            pytest.fail(f"{' '.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_flags_in_the_text_exist(page: Path) -> None:
    for words in mentioned(page):
        if not is_dwise(words) or (len(words) > 1 and words[1].isupper()):
            continue
        command, rest = verb_of(words)
        context = click.Context(command, **command.context_settings)
        known = {flag for p in command.get_params(context) for flag in (*p.opts, *p.secondary_opts)}
        for word in rest:
            if word == "--":
                break
            if word.startswith("-"):
                assert word.split("=")[0] in known, f"{' '.join(words)}: no flag {word}"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_make_targets_and_scripts_exist(page: Path) -> None:
    for words in [*written(page), *mentioned(page)]:
        if words[0] == "make":
            targets = [word for word in words[1:] if not _ASSIGNMENT.fullmatch(word)]
            assert set(targets) <= _TARGETS, words
        for word in words:
            if re.fullmatch(r"(benchmarks|examples|docs|tests)/[\w/.-]+", word):
                assert (ROOT / word).exists(), words


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_variables_and_metrics_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"\bDWISE_[A-Z_]*[A-Z]\b", text)) <= set(VARIABLES)
    for metric in re.findall(r"\bdwise_(?!predict\b|test_engine\b)([a-z_]+[a-z])\b", text):
        base = re.sub(r"_(total|bucket|sum|count)$", "", metric)
        assert f'"{base}' in _METRICS or f"dwise_{base}" in _METRICS, metric


def test_links_of_the_readme_lead_somewhere() -> None:
    """Those of the site are checked by its strict build."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = ROOT / path if path else ROOT / "README.md"
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}
            assert anchor in slugs, target
