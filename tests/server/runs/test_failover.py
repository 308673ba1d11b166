import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.failover import disturb
from tests.server.http.app_server import canvas as app_canvas
from tests.server.replicas import TWO_MESSAGES, Replica, replicas, start_replica
from tests.server.waiting import wait_while

pytestmark = pytest.mark.slow

PATH = "/agents/chat/completions"
WORDS = [f"w{number} " for number in range(60)]
WHOLE = "".join(WORDS)


async def read(replica: Replica, body: dict[str, Any], last: str, until: str) -> list[tuple[str, dict[str, Any]]]:
    """Read frames with their ids until the end, a frame that contains ``until``, or the death of the server."""
    headers = {"X-RAGFlow-Event-Ids": "true", **({"Last-Event-ID": last} if last else {})}
    result: list[tuple[str, dict[str, Any]]] = []
    id_ = ""
    try:
        async with replica.client.stream("POST", PATH, json=body, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id:"):
                    id_ = line[3:]
                elif line == "data:[DONE]":
                    result.append(("", {"event": "DONE"}))
                elif line.startswith("data:"):
                    result.append((id_, json.loads(line[5:])))
                    if until and until in line:
                        break
    except httpx.RemoteProtocolError:
        pass
    return result


def text(frames: list[tuple[str, dict[str, Any]]]) -> str:
    return "".join(frame["data"]["content"] for _, frame in frames if frame["event"] == "message")


@pytest.mark.usefixtures("redis_url")
async def test_clients_of_every_canvas_receive_the_same_if_their_server_stops() -> None:
    tally = await disturb(1, 0, lambda line: None, (signal.SIGKILL,))
    assert tally.differences == []
    assert tally.cut > 0


async def test_clients_finish_elsewhere_with_the_same_answer_if_theirs_is_killed(
    tmp_path: Path, redis_url: str
) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.005)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url) as (first, second),
    ):
        agent_id = (await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})).json()["data"]["id"]
        body = {"agent_id": agent_id, "query": "hi", "stream": True}
        # While all replicas live: begin on one, read to the end on the other.
        start = await read(first, body, "", "w20")
        rest = await read(second, body, start[-1][0], "")
        assert (text(start + rest), len(llm.requests)) == (WHOLE * 2, 2)
        starts = await asyncio.gather(*(read(first, body, "", "w10 ") for _ in range(3)))
        first.process.kill()
        async with asyncio.timeout(40):
            rests = await asyncio.gather(*(read(second, body, frames[-1][0], "") for frames in starts))
        for frames, rest in zip(starts, rests, strict=True):
            whole = frames + rest
            assert text(whole) == WHOLE * 2
            assert [frame["event"] for _, frame in whole[-2:]] == ["workflow_finished", "DONE"]
            assert len({frame["message_id"] for _, frame in whole[:-1]}) == 1
            session = whole[0][1]["session_id"]
            stored = (await second.client.get(f"/agents/{agent_id}/sessions/{session}")).json()["data"]["message"]
            assert [message["content"] for message in stored] == ["hi", WHOLE * 2]


async def test_a_turn_of_a_stopping_server_and_another_is_stored_once(tmp_path: Path, redis_url: str) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.01)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url) as (first, second),
    ):
        response = await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})
        agent_id = response.json()["data"]["id"]
        start = await read(first, {"agent_id": agent_id, "query": "hi", "stream": True}, "", "w10")
        first.process.terminate()
        async with asyncio.timeout(40):
            await first.process.wait()  # the first part is stored
            rest = await read(second, {"agent_id": agent_id, "stream": True}, start[-1][0], "")
        assert text(start + rest) == WHOLE * 2
        response = await second.client.get(f"/agents/{agent_id}/sessions/{start[0][1]['session_id']}")
        stored = response.json()["data"]
        assert ([message["content"] for message in stored["message"]], stored["round"]) == (["hi", WHOLE * 2], 1)


async def test_a_run_whose_servers_die_repeatedly_fails_and_can_be_continued(tmp_path: Path, redis_url: str) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.01)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url, 1, takeovers=1) as servers,
    ):
        first, settings = servers[0], tmp_path / "settings.toml"
        agent_id = (await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})).json()["data"]["id"]
        body = {"agent_id": agent_id, "query": "hi", "stream": True}
        start = await read(first, body, "", "w10 ")
        first.process.kill()
        servers.append(second := await start_replica(settings, first.key))
        async with asyncio.timeout(30):
            more = await read(second, body, start[-1][0], "w30 ")
        assert text(start + more).endswith("w30 ")
        second.process.kill()
        servers.append(third := await start_replica(settings, first.key))
        async with asyncio.timeout(30):
            headers = {"X-RAGFlow-Event-Ids": "true", "Last-Event-ID": more[-1][0]}
            last = await third.client.post(PATH, json=body, headers=headers)
        problem = "The run was not continued, because 2 servers died or lost its session while they executed it."
        assert problem in last.text

        session, run = start[0][1]["session_id"], start[0][1]["message_id"]
        stored = (await third.client.get(f"/agents/{agent_id}/sessions/{session}")).json()["data"]["message"]
        assert stored[1]["content"] in WHOLE
        assert stored[1]["content"].startswith("w0 ")
        url = str(third.client.base_url).replace("/api/v1/", f"/native/v1/agents/{agent_id}/runs/{run}")
        failed = (await third.client.get(url)).json()
        assert (failed.get("status"), problem in json.dumps(failed)) == ("failed", True), (url, failed)
        continued = (await third.client.post(f"{url}/continue")).json()
        assert continued.get("status") == "succeeded", continued
        assert continued["answer"].endswith(WHOLE)


FORM_AND_MODEL = app_canvas(
    ("begin", "Begin", {}, ["ask"]),
    ("ask", "UserFillUp", {"inputs": {"word": {"name": "word", "type": "line"}}}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{ask@word}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
)


async def begin_and_kill(replica: Replica, llm: MockLLM, body: dict[str, Any], number: signal.Signals) -> None:
    """Send a request, stop the server while the model answers, and lose all frames."""
    asked = len(llm.requests)
    lost = asyncio.create_task(read(replica, body, "", ""))
    await wait_while(lambda: len(llm.requests) == asked)
    lost.cancel()
    replica.process.send_signal(number)
    await replica.process.wait()


async def read_patiently(replica: Replica, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Send a request until the session is no longer busy."""
    async with asyncio.timeout(40):
        while not (frames := await read(replica, body, "", "")):
            await asyncio.sleep(0.2)
    return frames


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_repeated_request_receives_the_interrupted_run_from_its_beginning(
    tmp_path: Path, redis_url: str, number: signal.Signals
) -> None:
    """A client that has received no frame yet has nothing but its request."""
    replies = [reply("a"), *(reply(*WORDS, piece_delay_s=0.01) for _ in range(3))]
    async with MockLLM(replies) as llm, replicas(tmp_path, redis_url, llm.base_url) as (first, second):
        response = await first.client.post("/agents", json={"title": "Form", "dsl": FORM_AND_MODEL})
        agent_id = response.json()["data"]["id"]
        start = {"agent_id": agent_id, "query": "hi", "stream": True}
        calm = await read(first, start, "", "")
        answer = {"session_id": calm[0][1]["session_id"], "inputs": {"word": {"value": "x"}}}
        calm = await read(first, {**start, **answer}, "", "")
        again = await read(first, start, "", "")
        body = {**start, "session_id": again[0][1]["session_id"], "inputs": answer["inputs"]}
        await begin_and_kill(first, llm, body, number)
        frames = await read_patiently(second, body)
        assert [frame["event"] for _, frame in frames if frame["event"] != "message"] == [
            frame["event"] for _, frame in calm if frame["event"] != "message"
        ]
        assert text(frames) == WHOLE
        response = await second.client.get(f"/agents/{agent_id}/sessions/{body['session_id']}")
        assert [message["content"] for message in response.json()["data"]["message"]][-2:] == ["hi", WHOLE]
        assert frames[0][1]["message_id"] != again[0][1]["message_id"]
        other = await read(second, {**body, "query": "another", "inputs": {}}, "", "")
        assert other[0][1]["message_id"] != frames[0][1]["message_id"]
