"""Running servers that a campaign is to use."""

from __future__ import annotations

from dwise_predict.doctor.findings import Finding, missing, ok, warn
from dwise_predict.engines.sglang_engine.servers import ask_all
from dwise_predict.engines.sglang_engine.state import Requirements, ServerState
from dwise_predict.errors import EngineError
from dwise_predict.recipe import Recipe


def servers(recipe: Recipe, urls: tuple[str, ...]) -> list[Finding]:
    """Whether each server answers, and serves and records what the recipe describes."""
    requirements = Requirements(recipe, "stock")
    answers = dict(zip(urls, ask_all(urls), strict=True))
    some = any(isinstance(answer, ServerState) for answer in answers.values())
    return [_server(url, answer, requirements, some) for url, answer in answers.items()]


def _server(
    url: str, answer: ServerState | EngineError, requirements: Requirements, some: bool
) -> Finding:
    if isinstance(answer, EngineError):
        # The others go on without it, and it may come back.
        say = warn if some else missing
        return say("server", str(answer), f"start it: dwise profile serve ({url})")
    if found := requirements.faults(answer):
        return missing("server", f"{url}: {'; '.join(found)}", "start it again as the recipe says")
    if answer.routed:
        return warn(
            "server",
            f"{url} says nothing of the plugin: a router's servers cannot be checked through it",
            "look at /server_info of each; name their recordings with --recording",
        )
    return ok("server", f"{url}, {answer.slots} slots, records into {answer.recording}")
