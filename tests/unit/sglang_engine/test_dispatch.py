"""Requests spread over targets that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dwise_predict.engines.protocol import EngineRequest
from dwise_predict.engines.sglang_engine import dispatch
from dwise_predict.engines.sglang_engine.dispatch import send_all
from dwise_predict.engines.sglang_engine.targets import (
    AbortedError,
    BusyError,
    RefusedError,
    UnreachableError,
)
from dwise_predict.errors import EngineError


class Target:
    """Answers at once; ``away`` says at which of its answers it is not there, and for how long."""

    def __init__(self, name: str, capacity: int = 2, away: Sequence[int] = ()) -> None:
        self.name = name
        self.capacity = capacity
        self.away = set(away)
        self.taken: list[str] = []
        self.most = self._now = 0
        self.checks = 0

    async def check(self) -> None:
        self.checks += 1
        if self.checks in self.away:
            raise UnreachableError(f"{self.name} is away")

    async def answer(self, request: EngineRequest) -> str:
        self._now += 1
        self.most = max(self.most, self._now)
        self.taken.append(request.request_id)
        try:
            await asyncio.sleep(0.002)
            return self.reply(request)
        finally:
            self._now -= 1

    def reply(self, request: EngineRequest) -> str:
        return f"{self.name}: {request.request_id}"


class Dying(Target):
    """Dies for a while at its third answer."""

    replies = 0

    def reply(self, request: EngineRequest) -> str:
        self.replies += 1
        if self.replies == 3:
            self.away = {self.checks + 1, self.checks + 2}
            raise UnreachableError(f"{self.name} went away")
        return super().reply(request)


def requests(count: int) -> list[EngineRequest]:
    return [EngineRequest(f"r{i:03}", (1,), 8) for i in range(count)]


def send(
    asked: list[EngineRequest], targets: Sequence[Target], patience: float = 30
) -> tuple[list[str], list[str]]:
    """Ids in the order in which they were answered, and what was said."""
    answered: list[str] = []
    notes: list[str] = []
    asyncio.run(
        send_all(
            asked,
            targets,
            lambda request, _: answered.append(request.request_id),
            notes.append,
            patience,
        )
    )
    return answered, notes


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_PAUSE", "_ABORTED_PAUSE"):
        monkeypatch.setattr(dispatch, name, 0.01)


def test_all_share_the_work_in_order_and_within_their_room() -> None:
    targets = [Target("a", 3), Target("b", 1)]
    asked = requests(40)
    answered, notes = send(asked, targets)
    assert sorted(answered) == [request.request_id for request in asked]
    assert [target.most for target in targets] == [3, 1]
    for target in targets:
        assert target.taken == sorted(target.taken) and target.taken
    assert notes == []


class Forgetful(Target):
    """Loses a connection once and, as SGLang, knows its requests for a while after."""

    lost: frozenset[str] = frozenset()
    refusals = 0

    def reply(self, request: EngineRequest) -> str:
        if not self.lost and len(self.taken) > 3:
            self.lost = frozenset(self.taken[-2:])
            raise UnreachableError(f"{self.name}: connection reset")
        if request.request_id in self.lost and self.refusals < 12:
            self.refusals += 1
            raise BusyError("400 Duplicate request ID detected")
        return super().reply(request)


def test_ids_that_a_server_still_knows_are_sent_again_later() -> None:
    target = Forgetful("a", 2)
    asked = requests(20)
    answered, notes = send(asked, [target])
    assert sorted(answered) == [request.request_id for request in asked]
    assert target.refusals == 12
    assert notes == ["a: connection reset; tried again until it answers", "a is back"]


def test_nothing_to_send_needs_nobody() -> None:
    assert send([], [Target("a")]) == ([], [])


def test_one_that_dies_gives_its_requests_back_and_is_used_again() -> None:
    dying, other = Dying("a", 2), Target("b", 1)
    asked = requests(60)
    answered, notes = send(asked, [dying, other])
    assert sorted(answered) == [request.request_id for request in asked]
    assert notes == ["a went away; tried again until it answers", "a is back"]
    assert dying.checks == 4 and len(dying.taken) > 10
    # What it held was sent again before anything that came later.
    twice = {x for x in dying.taken if (dying.taken + other.taken).count(x) > 1}
    assert twice and max(twice) < "r010"


def test_one_that_never_comes_does_not_hold_up_the_others() -> None:
    gone = Target("gone", away=range(1, 1000))
    answered, notes = send(requests(20), [gone, Target("b")])
    assert len(answered) == 20 and gone.taken == []
    assert notes == ["gone is away; tried again until it answers"]


def test_when_none_answers_for_long_it_ends() -> None:
    with pytest.raises(EngineError, match=r"no server answered for 0\.05 s .*--resume"):
        send(requests(3), [Target("a", away=range(1, 1000))], patience=0.05)


def test_a_request_that_is_given_up_is_tried_again_a_few_times() -> None:
    class Moody(Target):
        aborts = 2

        def reply(self, request: EngineRequest) -> str:
            if request.request_id == "r001" and self.taken.count("r001") <= self.aborts:
                raise AbortedError("out of memory")
            return super().reply(request)

    moody = Moody("a")
    answered, _ = send(requests(5), [moody])
    assert sorted(answered) == [f"r{i:03}" for i in range(5)]
    assert moody.taken.count("r001") == 3
    moody = Moody("a")
    moody.aborts = 9
    with pytest.raises(EngineError, match=r"'r001' up 3 times \(out of memory\)"):
        send(requests(5), [moody])


def test_a_refused_request_ends_it_and_is_named() -> None:
    class Strict(Target):
        def reply(self, request: EngineRequest) -> str:
            if request.request_id == "r002":
                raise RefusedError("400 too long")
            return super().reply(request)

    with pytest.raises(EngineError, match=r"refuses request 'r002': 400 too long"):
        send(requests(5), [Strict("a")])


def test_a_target_that_is_the_wrong_one_ends_it() -> None:
    class Wrong(Target):
        async def check(self) -> None:
            raise EngineError("a cannot be used: block_size")

    with pytest.raises(EngineError, match="cannot be used: block_size"):
        send(requests(5), [Wrong("a"), Target("b")])


def test_a_silent_target_is_asked_whether_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_SILENCE", 0.02)

    class Hung(Target):
        async def answer(self, request: EngineRequest) -> str:
            self.taken.append(request.request_id)
            self.away = set(range(2, 1000))
            await asyncio.Event().wait()
            return ""

    hung = Hung("hung", 1)
    answered, notes = send(requests(10), [hung, Target("b", 1)])
    assert len(answered) == 10 and hung.taken == ["r000"]
    assert notes == ["hung is away; tried again until it answers"]
