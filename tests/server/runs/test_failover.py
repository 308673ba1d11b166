from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from msgspec.structs import replace

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.runs import failover as takeover
from ragflow_lg.server.runs.failover import Failover
from tests.fakes.mock_llm import MockLLM, reply
from tests.server.http.app_server import ECHO, AppServer, start_app
from tests.server.replicas import TWO_MESSAGES, Replica, replicas

PATH = "/agents/chat/completions"
WORDS = [f"w{number} " for number in range(60)]
WHOLE = "".join(WORDS)


async def read(replica: Replica, body: dict[str, Any], last: str, until: str) -> list[tuple[str, dict[str, Any]]]:
    """Read frames with their ids, to the end, or until one contains a text, or the server dies."""
    headers = {"X-RAGFlow-Event-Ids": "true", **({"Last-Event-ID": last} if last else {})}
    found: list[tuple[str, dict[str, Any]]] = []
    id_ = ""
    try:
        async with replica.client.stream("POST", PATH, json=body, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id:"):
                    id_ = line[3:]
                elif line == "data:[DONE]":
                    found.append(("", {"event": "DONE"}))
                elif line.startswith("data:"):
                    found.append((id_, json.loads(line[5:])))
                    if until and until in line:
                        break
    except httpx.RemoteProtocolError:
        pass
    return found


def text(frames: list[tuple[str, dict[str, Any]]]) -> str:
    return "".join(frame["data"]["content"] for _, frame in frames if frame["event"] == "message")


@pytest.mark.parametrize("place", ["w10 ", "message_end"])
async def test_clients_finish_on_another_replica_with_the_same_answer_even_if_theirs_is_killed(
    tmp_path: Path, redis_url: str, place: str
) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.005)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url) as (first, second),
    ):
        made = await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})
        agent_id = made.json()["data"]["id"]
        body = {"agent_id": agent_id, "query": "hi", "stream": True}
        # While all live: begun on one, read to the end on the other.
        begun_here = await read(first, body, "", "w20")
        rest_there = await read(second, body, begun_here[-1][0], "")
        assert text(begun_here + rest_there) == WHOLE * 2
        assert len(llm.requests) == 2
        begun = await asyncio.gather(*(read(first, body, "", place) for _ in range(3)))
        first.process.kill()
        async with asyncio.timeout(40):
            rests = await asyncio.gather(*(read(second, body, frames[-1][0], "") for frames in begun))
        for frames, rest in zip(begun, rests, strict=True):
            whole = frames + rest
            assert text(whole) == WHOLE * 2
            assert [frame["event"] for _, frame in whole[-2:]] == ["workflow_finished", "DONE"]
            assert len({frame["message_id"] for _, frame in whole[:-1]}) == 1
            session = whole[0][1]["session_id"]
            stored = (await second.client.get(f"/agents/{agent_id}/sessions/{session}")).json()["data"]["message"]
            assert [message["content"] for message in stored[1:]] == ["hi", WHOLE * 2]


async def test_a_turn_that_a_stopping_server_began_and_another_ended_is_said_once(
    tmp_path: Path, redis_url: str
) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.01)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url) as (first, second),
    ):
        made = await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})
        agent_id = made.json()["data"]["id"]
        begun = await read(first, {"agent_id": agent_id, "query": "hi", "stream": True}, "", "w10")
        first.process.terminate()
        async with asyncio.timeout(40):
            await first.process.wait()  # what it had said is stored
            rest = await read(second, {"agent_id": agent_id, "stream": True}, begun[-1][0], "")
        assert text(begun + rest) == WHOLE * 2
        found = await second.client.get(f"/agents/{agent_id}/sessions/{begun[0][1]['session_id']}")
        stored = found.json()["data"]
        assert [message["content"] for message in stored["message"][1:]] == ["hi", WHOLE * 2]
        assert stored["round"] == 1


class FakeTurns:
    """Turns whose runner has nothing to do, and which note what is kept."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.keep = AsyncMock(side_effect=failure)
        self._runner = SimpleNamespace(
            state=AsyncMock(return_value={"globals": {"sys.query": "hi"}}),
            pauses=AsyncMock(return_value=[]),
            continue_=lambda session, envelope: SimpleNamespace(envelope=envelope),
        )

    async def runner(self, agent: Any, session: Any) -> Any:
        return self._runner


async def ended(server: AppServer) -> str:
    told = await server.ask(await server.agent(ECHO))
    return told["data"]["message_id"]


async def test_an_interrupted_run_is_taken_over_once_however_many_ask(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        run_id, turns = await ended(server), FakeTurns()
        taking = Failover(server.app_state, turns)  # type: ignore[arg-type]
        assert await asyncio.gather(*(taking.take(run_id) for _ in range(5))) == [True] * 5
        ((run, owner, asked, _), options) = turns.keep.await_args
        player = (await server.app_state.run_manager.head(run_id)).player
        assert (run.envelope.message_id, owner, asked, options) == (run_id, "tenant", None, {"was": player})
        assert turns.keep.await_count == 1


async def test_a_run_that_nobody_knows_and_a_session_that_stays_held_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "FREE_S", 0.05)
    monkeypatch.setattr(takeover, "PAUSE_S", 0.01)
    async with start_app(tmp_path) as server:
        run_id, turns = await ended(server), FakeTurns()
        taking = Failover(server.app_state, turns)  # type: ignore[arg-type]
        assert not await taking.take("0" * 32)
        session = (await server.app_state.run_manager.head(run_id)).envelope.session_id
        held = await server.app_state.store.leases.acquire(session, lambda: None)
        assert not await taking.take(run_id)
        await held.release()
        assert await taking.take(run_id)
        await server.app_state.run_manager.drain()
        assert not await taking.take(run_id)
        assert turns.keep.await_count == 1


@pytest.mark.parametrize("is_quicker", [True, False])
async def test_whoever_was_quicker_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_quicker: bool) -> None:
    async with start_app(tmp_path) as server:
        run_id, run_manager = await ended(server), server.app_state.run_manager
        head = await run_manager.head(run_id)
        heads = [head, replace(head, player="other") if is_quicker else head]
        monkeypatch.setattr(run_manager, "head", AsyncMock(side_effect=heads))
        taking = Failover(server.app_state, FakeTurns(StreamError("Taken.")))  # type: ignore[arg-type]
        assert await taking.take(run_id) is is_quicker
