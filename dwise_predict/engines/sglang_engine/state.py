"""What a server says of itself in ``/server_info``, and whether a campaign can use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dwise_predict.fingerprint import Fingerprint, fingerprint_differences
from dwise_predict.profile import Batching
from dwise_predict.recipe import Recipe

_START = "start it with 'dwise profile serve', or with DWISE_PROFILE=DIR in its environment"


@dataclass(frozen=True)
class ServerState:
    """One server; ``fingerprint`` is None where the plugin does not speak for it.

    ``routed``: a router that says nothing of the servers behind it. ``longest`` is the most tokens
    of a prompt and its answer, None if unknown.
    """

    routed: bool
    mode: str
    policy: str
    reason: str
    slots: int
    fingerprint: Fingerprint | None
    recording: Path | None
    longest: int | None


def server_state(info: Mapping[str, Any]) -> ServerState:
    """Read the answer of ``/server_info``."""
    states = info.get("internal_states")
    said = [state.get("dwise") or {} for state in states or [] if isinstance(state, dict)]
    # Several where data parallelism has several schedulers; each has slots of its own.
    one = next((state for state in said if state.get("mode") == "off"), said[0] if said else {})
    longest = info.get("max_req_input_len")
    return ServerState(
        routed=not states,
        mode=str(one.get("mode", "")),
        policy=str(one.get("policy", "")),
        reason=str(one.get("reason", "")),
        slots=sum(int(state.get("slots", 0)) for state in said),
        fingerprint=_fingerprint(one.get("serves")),
        recording=Path(one["recording"]) if one.get("recording") else None,
        longest=int(longest) if isinstance(longest, int) else None,
    )


def faults(state: ServerState, recipe: Recipe, batching: Batching) -> list[str]:
    """Why a campaign of ``recipe`` cannot use a server, one sentence each; of a router nothing."""
    if state.routed:
        return []
    if state.mode == "":
        return [f"the DWISE plugin does not act there: install dwise-predict there and {_START}"]
    if state.mode == "off":
        return [f"the DWISE plugin is not active there: {state.reason or _START}"]
    if state.recording is None:
        return [f"it does not record: {_START}"]
    wanted = {"stock": ("profile", "stock fcfs"), "mixed": ("schedule", "fcfs")}[batching]
    found = []
    if (state.mode, state.policy) != wanted:
        found.append(
            f"it serves by {state.policy} in mode {state.mode}, but {wanted[1]} in mode "
            f"{wanted[0]} is profiled: set DWISE_MODE={wanted[0]}"
            + (" and DWISE_POLICY=fcfs" if batching == "mixed" else "")
        )
    if state.slots % recipe.engine.slots or state.slots == 0:
        found.append(
            f"its rounds have {state.slots} slots, the recipe's {recipe.engine.slots}: start it "
            f"with --max-running-requests {recipe.engine.slots}"
        )
    if state.fingerprint is None:
        return [*found, "its plugin is older than this library: install the same version there"]
    return [*found, *recipe_faults(state.fingerprint, recipe)]


def recipe_faults(served: Fingerprint, recipe: Recipe) -> list[str]:
    """In what a server differs from the recipe, one line each as ``key: recipe -> server``."""
    decoding = recipe.decoding
    wanted: dict[str, tuple[object, object]] = {
        "model.architecture": (recipe.model.architecture, served.architecture),
        "engine.dtype": (recipe.engine.dtype, served.dtype),
        "decoding.algorithm": (decoding.algorithm, served.algorithm),
        "decoding.block_size": (decoding.block_size, served.block_size),
        "decoding.fdfo": (decoding.fdfo, served.fdfo),
    }
    for name, value in decoding.parameters.items():
        found = served.algorithm_parameters.get(name)
        wanted[f"decoding.parameters.{name}"] = (value, found)
    repo = recipe.model.repo
    if not served.model.startswith(("local:", "builtin:")) and not Path(repo).expanduser().is_dir():
        wanted["model.repo"] = (repo, served.model)
        if recipe.model.pinned:
            wanted["model.revision"] = (recipe.model.revision, served.revision)
    return [
        f"{key}: {ours} -> {theirs}" for key, (ours, theirs) in wanted.items() if ours != theirs
    ]


class Requirements:
    """What every server of a campaign must be: the recipe's, and the same as the first."""

    def __init__(self, recipe: Recipe, batching: Batching) -> None:
        self._recipe = recipe
        self._batching = batching
        self._first: Fingerprint | None = None

    def faults(self, state: ServerState) -> list[str]:
        """Why the campaign cannot use a server, one sentence each."""
        if found := faults(state, self._recipe, self._batching):
            return found
        if state.fingerprint is None:
            return []
        self._first = self._first or state.fingerprint
        different = fingerprint_differences(self._first, state.fingerprint)
        return [f"it is not what the first server is ({x})" for x in different]


def _fingerprint(raw: object) -> Fingerprint | None:
    if not isinstance(raw, dict):
        return None
    try:
        return Fingerprint.model_validate(raw)
    except ValidationError:
        return None
