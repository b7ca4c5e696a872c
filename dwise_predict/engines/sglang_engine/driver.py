"""A profiling campaign with SGLang, from prompts to the profile folder.

The plugin in SGLang records every request as it ends; the driver sends those that are not recorded
yet, keeps their answers, and makes the profile when all are there. Everything lies in files that
only grow, so that a killed driver, engine or server loses what was in flight and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dwise_predict.assembly import assemble_profile, join_recordings, missing_requests
from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.sglang_engine.answers import ANSWERS_FILE, Answers, correctness
from dwise_predict.engines.sglang_engine.arguments import (
    ALGORITHM_FILE,
    plugin_variables,
    server_arguments,
    write_algorithm_config,
)
from dwise_predict.engines.sglang_engine.dispatch import send_all
from dwise_predict.engines.sglang_engine.fleet import Fleet
from dwise_predict.engines.sglang_engine.offline import offline_engine
from dwise_predict.engines.sglang_engine.servers import HttpServer, check_servers, http_session
from dwise_predict.engines.sglang_engine.state import Requirements, faults, recipe_faults
from dwise_predict.engines.sglang_engine.targets import Target
from dwise_predict.engines.sglang_engine.tokenizer import ModelTokenizer
from dwise_predict.errors import EngineError, ProfileError
from dwise_predict.files import locked, make_folder, write_text
from dwise_predict.profile import Batching, read_run_info
from dwise_predict.profile.records import RUN_FILE, SHARDS_FOLDER
from dwise_predict.progress import Progress
from dwise_predict.recipe import Recipe
from dwise_predict.recording import (
    HEADER,
    campaign_tag,
    read_recording,
    recorded_id,
    recorded_requests,
)
from dwise_predict.workload.schema import Request, workload_sha256

_RECORDING_SECONDS = 30.0
"""How long after the last answer its record is waited for: an answer leaves a moment before."""


@dataclass(frozen=True)
class Campaign:
    """What is to be served, and where its files lie.

    ``folder`` is ``shards`` of the profile folder, which is dropped when the profile is finished.
    """

    requests: Sequence[Request]
    recipe: Recipe
    batching: Batching
    folder: Path

    @property
    def tag(self) -> str:
        """Tells its records from those of other campaigns."""
        return campaign_tag(self.requests, self.batching)

    @property
    def recording(self) -> Path:
        """Recording of an engine of one's own."""
        return self.folder / "recording"

    @property
    def answers(self) -> Path:
        """Answers that were received."""
        return self.folder / ANSWERS_FILE

    @property
    def places(self) -> Path:
        """Recordings that servers named, a JSON list: a server may be down after a restart."""
        return self.folder / "recordings.json"


def profile_with_sglang(
    requests: Sequence[Request],
    recipe: Recipe,
    out_dir: Path,
    progress: Progress,
    batching: Batching,
    fleet: Fleet,
) -> Path:
    """Serve ``requests`` with SGLang; see :func:`dwise_predict.profiling.profile_workload`.

    Raises:
        EngineError: SGLang does not start or ends, a server is not what the recipe describes, or
            its recording cannot be read here; the next step is named.
        ProfileError: ``out_dir`` belongs to something else, or recordings do.
    """
    if (out_dir / RUN_FILE).is_file():
        _require_own(out_dir, requests, batching)
        return out_dir
    campaign = Campaign(requests, recipe, batching, out_dir / SHARDS_FOLDER)
    make_folder(campaign.folder)
    busy = ProfileError(
        f"another process is writing the profile {out_dir}: wait for it, or choose another folder"
    )
    with locked(campaign.folder, busy):
        with Answers(campaign.answers) as answers:
            try:
                folders = asyncio.run(_serve(campaign, answers, fleet, progress))
            except BaseException:
                _clear_unbegun(campaign, answers)
                raise
        return assemble_profile(
            folders,
            requests,
            out_dir,
            workload=recipe.workload.name,
            seed=recipe.seed,
            budget_tokens=recipe.decoding.budget_tokens,
            correct=correctness(requests, answers.texts),
            batching=batching,
        )


def _clear_unbegun(campaign: Campaign, answers: Answers) -> None:
    """Remove what a campaign left that served nothing, so that another can begin there."""
    own = {campaign.recording, campaign.answers, campaign.places, campaign.folder / ALGORITHM_FILE}
    strangers = set(campaign.folder.iterdir()) - own
    if not (strangers or answers.texts or _records(campaign.recording)):
        shutil.rmtree(campaign.folder)
        if not any(campaign.folder.parent.iterdir()):
            campaign.folder.parent.rmdir()


def _require_own(out_dir: Path, requests: Sequence[Request], batching: Batching) -> None:
    run = read_run_info(out_dir)
    if run.workload.sha256 != workload_sha256(requests) or run.batching != batching:
        raise ProfileError(f"{out_dir} holds a profile of something else: choose another folder")


async def _serve(
    campaign: Campaign, answers: Answers, fleet: Fleet, progress: Progress
) -> list[Path]:
    """Serve what is missing; returns the recordings, which then hold every request."""
    known = [*fleet.recordings, campaign.recording]
    absent = [str(folder) for folder in fleet.recordings if not (folder / HEADER).is_file()]
    if absent and not fleet.servers:
        raise EngineError(
            f"--recording {absent[0]}: there is no recording of the SGLang plugin (no {HEADER})"
        )
    if fleet.recordings or not fleet.servers:
        _require_recipe(campaign.recipe, _readable(known))
        missing = _missing(campaign, known, answers)
        if not missing:
            return _readable(known)
        if fleet.recordings and not fleet.servers:
            raise EngineError(
                f"{_named(missing)} of {len(campaign.requests)} requests are not recorded, or the "
                "answers that are to be checked were not kept: add --server URL to have them served"
            )
    if not fleet.servers and find_spec("sglang") is None:
        raise EngineError(
            "SGLang is not installed here: pip install 'dwise-predict[sglang]' ('dwise doctor' "
            "says which release a model needs), or name running servers with --server URL"
        )
    progress.note("tokenising prompts")
    tokenizer = ModelTokenizer(campaign.recipe.model)
    budget = campaign.recipe.decoding.budget_tokens
    prompts = {
        request.request_id: EngineRequest(
            recorded_id(request.request_id, campaign.tag),
            tuple(tokenizer.encode(request.messages)),
            request.max_new_tokens or budget,
        )
        for request in campaign.requests
    }
    sending = Sending(campaign, prompts, answers, progress)
    if fleet.servers:
        return await _serve_by_fleet(sending, fleet, tokenizer)
    return await _serve_here(sending)


async def _serve_here(sending: Sending) -> list[Path]:
    campaign = sending.campaign
    config = write_algorithm_config(campaign.recipe.decoding, campaign.folder)
    arguments = server_arguments(campaign.recipe, config)
    slots = campaign.recipe.engine.slots
    variables = plugin_variables(campaign.recording, slots, campaign.batching)
    descriptor, name = tempfile.mkstemp(prefix="dwise-sglang-", suffix=".log")
    os.close(descriptor)
    log = Path(name)
    sending.progress.note(f"starting SGLang; its log is {log}")
    async with offline_engine(arguments, variables, log) as engine:
        if found := faults(engine.state, campaign.recipe, campaign.batching):
            raise EngineError(f"SGLang cannot be used: {'; '.join(found)}; its log: {log}")
        sending.check_lengths(engine.state.longest)
        await sending.send([engine], lambda: [campaign.recording])
    log.unlink()
    return [campaign.recording]


async def _serve_by_fleet(sending: Sending, fleet: Fleet, tokenizer: ModelTokenizer) -> list[Path]:
    campaign = sending.campaign
    async with http_session() as session:
        requirements = Requirements(campaign.recipe, campaign.batching)
        servers = [
            HttpServer(url, session, fleet.in_flight, requirements.faults, tokenizer.decode)
            for url in fleet.servers
        ]
        for note in await check_servers(servers):
            sending.progress.note(f"{note}; tried again until it answers")
        for server in servers:
            if server.state is not None:
                sending.check_lengths(server.state.longest)

        def places() -> list[Path] | None:
            named = [s.state.recording for s in servers if s.state and s.state.recording]
            folders = list(fleet.recordings or named)
            here = len(_readable(folders)) == len(folders) > 0
            before = [] if fleet.recordings else _remembered(campaign, named)
            return [*folders, *before, campaign.recording] if here else None

        await sending.send(servers, places)
        if (folders := places()) is None:
            raise EngineError(_copy_advice(servers))
    return _readable(folders)


def _remembered(campaign: Campaign, named: Sequence[Path]) -> list[Path]:
    """Readable recordings of all servers that took part so far; ``named`` are added to them."""
    before: list[str] = []
    if campaign.places.is_file():
        before = json.loads(campaign.places.read_text())
    known = list(dict.fromkeys([*before, *map(str, named)]))
    if known != before:
        write_text(campaign.places, json.dumps(known))
    return _readable([Path(name) for name in known])


def _copy_advice(servers: Sequence[HttpServer]) -> str:
    """What to do when everything was answered, and recordings lie elsewhere."""
    named = [
        f"{server.name}: {server.state.recording}"
        for server in servers
        if server.state is not None and server.state.recording is not None
    ]
    return (
        "every request was answered, but the recordings cannot be read here"
        + (f" ({', '.join(named)})" if named else "")
        + ": copy them here and go on with --resume and --recording DIR for each, or make the "
        "profile with 'dwise profile merge'"
    )


class Sending:
    """Sends what is missing of a campaign, and shows how far it is."""

    def __init__(
        self,
        campaign: Campaign,
        prompts: Mapping[str, EngineRequest],
        answers: Answers,
        progress: Progress,
    ) -> None:
        self.campaign = campaign
        self.progress = progress
        self._prompts = prompts
        self._answers = answers
        self._requests = {
            prompts[request.request_id].request_id: request for request in campaign.requests
        }

    def check_lengths(self, longest: int | None) -> None:
        """Raise EngineError, naming some, when requests need more than ``longest`` tokens."""
        if longest is None:
            return
        long = [
            self._requests[prompt.request_id]
            for prompt in self._prompts.values()
            if len(prompt.prompt_ids) + prompt.budget_tokens > longest
        ]
        if long:
            raise EngineError(
                f"{_named(long)} requests have more tokens, prompt and budget together, than the "
                f"{longest} that SGLang takes: leave them out, or raise its KV cache"
            )

    async def send(
        self, targets: Sequence[Target], places: Callable[[], Sequence[Path] | None]
    ) -> None:
        """Serve until everything is recorded in ``places``; where they are None, is answered.

        Raises EngineError when requests are answered but not recorded.
        """
        total = len(self.campaign.requests)
        with self.progress.task("profile", total) as advance:
            missing = _missing(self.campaign, places(), self._answers)
            advance(total - len(missing))
            shown = {r.request_id for r in self.campaign.requests} - {r.request_id for r in missing}

            def answered(prompt: EngineRequest, text: str) -> None:
                request = self._requests[prompt.request_id]
                self._answers.add(request, text)
                if request.request_id not in shown:
                    shown.add(request.request_id)
                    advance(1)

            while missing:
                queue = [self._prompts[request.request_id] for request in missing]
                await send_all(queue, targets, answered, self.progress.note)
                left = await self._await_records(places)
                if len(left) == len(missing):
                    raise EngineError(
                        f"{_named(left)} requests were answered, but are not recorded in "
                        f"{', '.join(map(str, places() or []))}: is that where the servers "
                        "record? Their logs and /server_info say"
                    )
                if missing := left:
                    self.progress.note(
                        f"{_named(left)} requests were answered, but not recorded by a server that "
                        "ended: sent again"
                    )

    async def _await_records(self, places: Callable[[], Sequence[Path] | None]) -> list[Request]:
        """What is missing, as soon as it is nothing or after some time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _RECORDING_SECONDS
        pause = 0.05
        while True:
            left = _missing(self.campaign, places(), self._answers)
            if not left or loop.time() > until:
                return left
            await asyncio.sleep(pause)
            pause = min(2 * pause, 5.0)


def _missing(campaign: Campaign, places: Sequence[Path] | None, answers: Answers) -> list[Request]:
    """Requests without a record in ``places``, or without the answer that is to be checked.

    Where the records cannot be read, all that were not answered.
    """
    if places is None:
        return [r for r in campaign.requests if r.request_id not in answers.texts]
    absent = list(campaign.requests)
    if folders := _readable(places):
        joined = join_recordings(folders, campaign.tag)
        budget = campaign.recipe.decoding.budget_tokens
        absent = missing_requests(joined, campaign.requests, budget)
    unrecorded = {request.request_id for request in absent}
    return [
        request
        for request in campaign.requests
        if request.request_id in unrecorded
        or (request.answer is not None and request.request_id not in answers.texts)
    ]


def _require_recipe(recipe: Recipe, recordings: Sequence[Path]) -> None:
    """Raise ProfileError when one was made by another server than the recipe describes."""
    for folder in recordings:
        recording = read_recording(folder)
        found = recipe_faults(recording.fingerprint, recipe)
        if recording.slots != recipe.engine.slots:
            found.append(f"engine.slots: {recipe.engine.slots} -> {recording.slots}")
        if found:
            raise ProfileError(
                f"{folder} was not recorded as the recipe says ({'; '.join(found)}): use the "
                "recipe that it was recorded with, or another recording"
            )


def _records(folder: Path) -> bool:
    """Whether a request is recorded there."""
    return (folder / HEADER).is_file() and bool(recorded_requests(folder))


def _readable(folders: Sequence[Path]) -> list[Path]:
    return [folder for folder in folders if (folder / HEADER).is_file()]


def _named(requests: Sequence[Request]) -> str:
    """Their number and the first of them."""
    names = ", ".join(request.request_id for request in requests[:3])
    return f"{len(requests)} ({names}{', …' if len(requests) > 3 else ''})"
