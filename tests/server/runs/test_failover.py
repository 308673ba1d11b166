import asyncio
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from msgspec.structs import replace

from ragflow_lg.base.errors import StreamError
from ragflow_lg.runs.progress import Progress
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.runs import failover as failover_module
from ragflow_lg.server.runs.failover import NEVER_BEGAN, Failover
from ragflow_lg.server.streaming.new_run import NewRun
from ragflow_lg.services.chat import Usage
from tests.fakes.canvas import canvas, plan_of
from tests.fakes.canvas import text as text_node
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.failover import disturb
from tests.server.http.app_server import ECHO, AppServer, start_app
from tests.server.http.app_server import canvas as app_canvas
from tests.server.replicas import TWO_MESSAGES, Replica, replicas
from tests.stores import OpenStore

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


async def test_clients_finish_on_another_replica_with_the_same_answer_if_theirs_is_killed(
    tmp_path: Path, redis_url: str
) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.005)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url) as (first, second),
    ):
        response = await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})
        agent_id = response.json()["data"]["id"]
        body = {"agent_id": agent_id, "query": "hi", "stream": True}
        # While all replicas live: begin on one, read to the end on the other.
        start = await read(first, body, "", "w20")
        rest = await read(second, body, start[-1][0], "")
        assert text(start + rest) == WHOLE * 2
        assert len(llm.requests) == 2
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


async def test_a_turn_begun_by_a_stopping_server_and_ended_by_another_is_stored_once(
    tmp_path: Path, redis_url: str
) -> None:
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
        assert [message["content"] for message in stored["message"]] == ["hi", WHOLE * 2]
        assert stored["round"] == 1


async def test_a_run_whose_servers_die_again_and_again_fails_and_can_be_continued_by_hand(
    tmp_path: Path, redis_url: str
) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.01)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url, 3, takeovers=1) as (first, second, third),
    ):
        response = await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})
        agent_id = response.json()["data"]["id"]
        body = {"agent_id": agent_id, "query": "hi", "stream": True}
        start = await read(first, body, "", "w10 ")
        first.process.kill()
        async with asyncio.timeout(30):
            more = await read(second, body, start[-1][0], "w30 ")
        assert text(start + more).endswith("w30 ")
        second.process.kill()
        async with asyncio.timeout(30):
            headers = {"X-RAGFlow-Event-Ids": "true", "Last-Event-ID": more[-1][0]}
            last = await third.client.post(PATH, json=body, headers=headers)
        problem = "The run was not continued, because 2 servers died while they executed it."
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
    async with asyncio.timeout(20):
        while len(llm.requests) == asked:
            await asyncio.sleep(0.01)
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
    async with (
        MockLLM(replies) as llm,
        replicas(tmp_path, redis_url, llm.base_url) as (first, second),
    ):
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


class FakeRunner:
    """A runner without anything to do."""

    async def progress(self, session: str) -> Progress:
        return Progress(plan_of(canvas({"t": text_node()})))

    def take_over(self, session: str, envelope: Envelope, progress: Progress) -> Any:
        return SimpleNamespace(envelope=envelope, status="running", error=None)


class FakeTurns:
    """Records the runs that are to be started: id, tenant, question and previous player."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.runs: list[tuple[str, str, str | None, str]] = []
        self.ends: list[tuple[str, str, str]] = []
        self._failure = failure

    async def runner(self, agent: Any, session: Any, version: Any = None, *, is_page: bool = False) -> Any:
        return FakeRunner()

    async def start_run(
        self,
        run: Any,
        new: NewRun,
        *,
        previous: str,
        takeovers: int,
        replay: Any,
    ) -> None:
        self.runs.append((run.envelope.message_id, new.tenant, new.question, previous))
        self.ends.append((run.status, run.error, new.policy))
        if self._failure is not None:
            raise self._failure


async def finish_run(server: AppServer) -> str:
    """Return a run whose process has died after the last event. The database does not know the end."""
    response = await server.ask(await server.agent(ECHO))
    run_id = response["data"]["message_id"]
    await RunRepository(server.app_state.database, "tenant").end(run_id, "running", "", Usage(), 0)
    return run_id


async def test_an_interrupted_run_is_taken_over_once_for_all_followers(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        run_id, turns = await finish_run(server), FakeTurns()
        failover = Failover(server.app_state, turns)
        assert await asyncio.gather(*(failover.take(run_id) for _ in range(5))) == [True] * 5
        player = (await server.app_state.run_manager.head(run_id)).player
        assert turns.runs == [(run_id, "tenant", None, player)]
        assert turns.ends == [("running", None, "continue")], "with what happens when nobody follows it"


async def test_a_run_whose_end_is_stored_only_ends_for_its_followers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_app(tmp_path) as server:
        run_id = await finish_run(server)
        monkeypatch.setattr(server.app_state.run_manager, "read_end", AsyncMock(return_value=None))
        for status in ("succeeded", "failed", "cancelled", "refused"):
            turns = FakeTurns()
            await RunRepository(server.app_state.database, "tenant").end(run_id, status, "", Usage(), 0)
            assert await Failover(server.app_state, turns).take(run_id)
            assert [end[:2] for end in turns.ends] == [(status, "")]


async def test_a_cancelled_run_is_not_continued(tmp_path: Path, reopen_shared: OpenStore) -> None:
    """Its process has died before it saw the request, or before the database knew the end."""
    async with start_app(tmp_path) as server, reopen_shared() as store:
        run_id, turns = await finish_run(server), FakeTurns()
        record = await server.app_state.store.runs.get(run_id)
        assert record is not None
        await store.runs.put(record)
        await store.cancels.request(record.session)
        await Failover(replace(server.app_state, store=store), turns).take(run_id)
        assert [end[:2] for end in turns.ends] == [("cancelled", "")]


async def test_a_run_that_is_cancelled_before_its_takeover_is_not_continued(tmp_path: Path) -> None:
    async with start_app(tmp_path, checkpoints=f"sqlite:///{tmp_path}/sessions.db") as server:
        run_id, turns = await finish_run(server), FakeTurns()
        record = await server.app_state.store.runs.get(run_id)
        assert record is not None
        await server.app_state.store.runs.put(replace(record, status="running"))
        row = await RunRepository(server.app_state.database, "tenant").get(run_id)
        assert row is not None
        url = f"{server.url}/native/v1/agents/{row.agent_id}/runs/{run_id}/cancel"
        response = await server.client.post(url)
        assert (response.status_code, response.json()["status"]) == (202, "interrupted")
        assert await Failover(server.app_state, turns).take(run_id)
        assert [end[:2] for end in turns.ends] == [("cancelled", "")]


async def test_a_run_of_which_nothing_is_stored_is_refused(tmp_path: Path, reopen_shared: OpenStore) -> None:
    """Its server died after it had told the database of the run, and before its first step."""
    async with start_app(tmp_path) as server, reopen_shared() as store:
        run_id, turns = await finish_run(server), FakeTurns()
        assert await Failover(replace(server.app_state, store=store), turns).take(run_id)
        assert [end[:2] for end in turns.ends] == [("refused", NEVER_BEGAN)]


async def test_the_log_names_the_process_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_app(tmp_path) as server:
        run_id, run_manager = await finish_run(server), server.app_state.run_manager
        head = await run_manager.head(run_id)
        monkeypatch.setattr(run_manager, "head", AsyncMock(return_value=replace(head, process="host/1|42|7")))
        assert await Failover(server.app_state, FakeTurns()).take(run_id)
        assert caplog.messages == []
        monkeypatch.setattr(run_manager, "read_end", AsyncMock(return_value=None))
        assert await Failover(server.app_state, FakeTurns()).take(run_id)
        (message,) = caplog.messages
        assert message.startswith(f"run {run_id} goes on here: process 42 on host has not reported for ")


async def test_unknown_runs_and_busy_sessions_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover_module, "FREE_S", 0.05)
    async with start_app(tmp_path) as server:
        run_id, turns = await finish_run(server), FakeTurns()
        failover = Failover(server.app_state, turns)
        assert not await failover.take("0" * 32)
        session = (await server.app_state.run_manager.head(run_id)).envelope.session_id
        lease = await server.app_state.store.leases.acquire(session, lambda: None)
        assert not await failover.take(run_id)
        await lease.release()
        assert await failover.take(run_id)
        await server.app_state.run_manager.drain()
        assert not await failover.take(run_id)
        assert len(turns.runs) == 1


async def test_a_request_to_cancel_is_repeated_until_the_run_has_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reopen_shared: OpenStore
) -> None:
    """The process that plays it leases the session a moment later, which clears earlier requests."""
    async with start_app(tmp_path) as server, reopen_shared() as store:
        run_id, run_manager = await finish_run(server), server.app_state.run_manager
        session = (await run_manager.head(run_id)).envelope.session_id
        monkeypatch.setattr(server.turns, "_app_state", replace(server.app_state, store=store))
        monkeypatch.setattr(run_manager, "is_played", AsyncMock(return_value=True))
        monkeypatch.setattr(run_manager, "cancel", AsyncMock(return_value=True))
        cancelling = asyncio.create_task(server.turns.cancel_run("tenant", run_id))
        while not await store.cancels.is_requested(session):
            await asyncio.sleep(0.01)
        lease = await store.leases.acquire(session, lambda: None)
        assert await cancelling
        assert await store.cancels.is_requested(session)
        await lease.release()


@pytest.mark.parametrize("is_quicker", [True, False])
async def test_a_run_counts_as_continued_if_another_process_claimed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_quicker: bool
) -> None:
    async with start_app(tmp_path) as server:
        run_id, run_manager = await finish_run(server), server.app_state.run_manager
        head = await run_manager.head(run_id)
        heads = [head] * 4 + [replace(head, player="other") if is_quicker else head]
        monkeypatch.setattr(run_manager, "head", AsyncMock(side_effect=heads))
        failover = Failover(server.app_state, FakeTurns(StreamError("Taken.")))
        assert await failover.take(run_id) is is_quicker
