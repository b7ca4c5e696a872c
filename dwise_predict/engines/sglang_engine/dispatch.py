"""Sends requests to every target as it has room, in order, until all are answered.

A target that stops answering gives back what it held, which comes first again, and is tried again
with growing pauses while the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import Counter
from collections.abc import Callable, Sequence

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.sglang_engine.targets import (
    AbortedError,
    BusyError,
    RefusedError,
    Target,
    UnreachableError,
)
from dwise_predict.errors import EngineError

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_SILENCE = 60.0
"""Seconds without an answer after which a target is asked whether it is there."""
_PATIENCE = 900.0
"""Seconds after which a campaign ends that no target answers."""
_ABORTED_PAUSE = 5.0
"""Seconds before a request that SGLang gave up, or did not take, is sent again."""
_TRIES = 3
"""How often a request may be given up by SGLang."""

Answered = Callable[[EngineRequest, str], None]
Note = Callable[[str], None]


async def send_all(
    requests: Sequence[EngineRequest],
    targets: Sequence[Target],
    answered: Answered,
    note: Note,
    patience: float = _PATIENCE,
) -> None:
    """Have ``requests`` served by ``targets``; calls ``answered`` for each as it is.

    Args:
        requests: in the order in which they are sent.
        targets: at least one; all that answer share the work.
        answered: takes a request and the text of its answer.
        note: says one line, of targets that come and go.
        patience: seconds that no target at all may answer.

    Raises:
        EngineError: a request is refused, or given up several times; a target is not what it
            should be; no target answered for ``patience`` seconds.
    """
    open_requests = _Open(requests)
    away = _Away(len(targets), patience)
    users = [
        asyncio.ensure_future(_User(target, open_requests, answered, note, away).run())
        for target in targets
    ]
    try:
        await asyncio.gather(*users)
    finally:
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)


class _Open:
    """Requests that nobody has answered: to be sent, in order, or with some target."""

    def __init__(self, requests: Sequence[EngineRequest]) -> None:
        self._waiting = list(enumerate(requests))
        self._left = len(requests)
        self._tries: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @property
    def finished(self) -> bool:
        return self._left == 0

    def take(self) -> tuple[int, EngineRequest] | None:
        return heapq.heappop(self._waiting) if self._waiting else None

    def give_back(self, entry: tuple[int, EngineRequest]) -> None:
        heapq.heappush(self._waiting, entry)
        self._wake()

    def finish(self) -> None:
        self._left -= 1
        if self.finished:
            self._wake()

    def given_up(self, entry: tuple[int, EngineRequest], reason: str) -> None:
        request_id = entry[1].request_id
        self._tries[request_id] += 1
        if self._tries[request_id] == _TRIES:
            raise EngineError(
                f"SGLang gave request {request_id!r} up {_TRIES} times ({reason}): look into its "
                "log; what was served is kept, continue with --resume"
            )
        self.give_back_later(entry)

    def give_back_later(self, entry: tuple[int, EngineRequest]) -> None:
        """At once, it might end on the same ailing server."""
        asyncio.get_running_loop().call_later(_ABORTED_PAUSE, self.give_back, entry)

    async def change(self) -> None:
        """Return when there may be something to take, or nothing left to do."""
        await self._changed.wait()

    async def finish_within(self, seconds: float) -> None:
        """Return after ``seconds``, or earlier when nothing is left to do."""
        end = asyncio.get_running_loop().time() + seconds
        while not self.finished and (left := end - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self.change(), left)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Away:
    """Which targets do not answer, and since when none does."""

    def __init__(self, targets: int, patience: float) -> None:
        self._targets = targets
        self._patience = patience
        self._names: set[str] = set()
        self._since = 0.0

    def gone(self, name: str, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        if name not in self._names:
            self._names.add(name)
            self._since = now
        if len(self._names) == self._targets and now - self._since > self._patience:
            raise EngineError(
                f"no server answered for {self._patience:g} s ({reason}): start them again and "
                "continue with --resume, what was served is kept"
            )

    def back(self, name: str) -> bool:
        """Whether ``name`` was away."""
        was_away = name in self._names
        self._names.discard(name)
        return was_away


class _User:
    """Feeds one target to the end, however often it goes away."""

    def __init__(
        self, target: Target, open_requests: _Open, answered: Answered, note: Note, away: _Away
    ) -> None:
        self._target = target
        self._open = open_requests
        self._answered = answered
        self._note = note
        self._away = away
        self._pause = _FIRST_PAUSE

    async def run(self) -> None:
        while not self._open.finished:
            try:
                await self._target.check()
                await self._feed()
            except UnreachableError as error:
                if self._pause == _FIRST_PAUSE:
                    self._note(f"{error}; tried again until it answers")
                self._away.gone(self._target.name, str(error))
                await self._open.finish_within(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _feed(self) -> None:
        """Keep the target full until all requests are answered; raises what it raises."""
        finished: asyncio.Queue[_Sent] = asyncio.Queue()
        going_on: set[_Sent] = set()
        try:
            while not self._open.finished:
                while len(going_on) < self._target.capacity and (entry := self._open.take()):
                    going_on.add(_Sent(entry, self._target, finished))
                if not going_on:
                    await self._open.change()
                    continue
                try:
                    sent = await asyncio.wait_for(finished.get(), _SILENCE)
                except (TimeoutError, asyncio.TimeoutError):
                    await self._target.check()
                    continue
                going_on.discard(sent)
                self._settle(sent)
        finally:
            for sent in going_on:
                sent.task.cancel()
                self._open.give_back(sent.entry)

    def _settle(self, sent: _Sent) -> None:
        request = sent.entry[1]
        try:
            text = sent.task.result()
        except UnreachableError:
            self._open.give_back(sent.entry)
            raise
        except BusyError:
            self._open.give_back_later(sent.entry)
            return
        except AbortedError as error:
            self._open.given_up(sent.entry, str(error))
            return
        except RefusedError as error:
            raise EngineError(
                f"SGLang refuses request {request.request_id!r}: {error}; what was served is kept"
            ) from error
        self._pause = _FIRST_PAUSE
        if self._away.back(self._target.name):
            self._note(f"{self._target.name} is back")
        self._answered(request, text)
        self._open.finish()


class _Sent:
    """A request on its way."""

    def __init__(
        self, entry: tuple[int, EngineRequest], target: Target, finished: asyncio.Queue[_Sent]
    ) -> None:
        self.entry = entry
        self.task = asyncio.ensure_future(target.answer(entry[1]))
        self.task.add_done_callback(lambda _: finished.put_nowait(self))
