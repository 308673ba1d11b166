from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.mock_llm import MockLLM, reply
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
