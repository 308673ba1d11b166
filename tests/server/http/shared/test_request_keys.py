"""A request that is sent again with its `Idempotency-Key` is answered by the run of the first one."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from pydantic import SecretStr

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.http.shared.auth import VISITOR_HEADER
from ragflow_lg.server.runs import turns
from ragflow_lg.server.runs.turns import Turn
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import RunRecord
from tests.fakes.services import Reply
from tests.server.http.app_server import FORM, MODEL, AppServer, asks, start_app
from tests.stores import fresh_prefix

KEY = {"Idempotency-Key": "one"}
FIRST = "f" * 32
OPEN = {"auth_type": "none", "allow_anonymous": True}
HOOK = {"mode": "Webhook", "methods": ["POST"], "execution_mode": "Streaming", "security": OPEN}
WEBHOOK = asks("hi", HOOK, llm_id="m@Mock")


async def count_runs(server: AppServer, agent_id: str) -> int:
    return (await RunRepository(server.app_state.database, server.tenant).find(agent_id, "", 1, 50))[1]


def routes(agent_id: str) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        "ragflow": ("/api/v1/agents/chat/completions", {"agent_id": agent_id, "query": "hi", "stream": False}),
        "ragflow-stream": ("/api/v1/agents/chat/completions", {"agent_id": agent_id, "query": "hi", "stream": True}),
        "openai": ("/v1/chat/completions", {"model": agent_id, "messages": [{"role": "user", "content": "hi"}]}),
        "native": (f"/native/v1/agents/{agent_id}/runs", {"query": "hi"}),
        "native-stream": (f"/native/v1/agents/{agent_id}/runs/stream", {"query": "hi"}),
        "webhook": (f"/api/v1/agents/{agent_id}/webhook", {"query": "hi"}),
    }


@pytest.mark.parametrize("route", routes(""))
async def test_a_request_that_is_repeated_with_its_key_begins_no_second_run(server: AppServer, route: str) -> None:
    server.model.replies += [Reply("Hello"), Reply("Again")]
    agent_id = await server.agent(WEBHOOK if route == "webhook" else MODEL)
    path, body = routes(agent_id)[route]
    answers = [await server.client.post(server.url + path, json=body, headers=KEY) for _ in range(3)]
    assert all(answer.status_code == 200 for answer in answers), answers[-1].text
    assert "Hello" in answers[0].text
    assert len({answer.text for answer in answers}) == 1
    assert (await count_runs(server, agent_id), len(server.model.requests)) == (1, 1)
    other = await server.client.post(server.url + path, json={**body, "user_id": "other"}, headers=KEY)
    assert "Another request was sent with this Idempotency-Key" in other.text
    assert route != "native" or other.status_code == 422
    assert "Again" in (await server.client.post(server.url + path, json=body, headers={"Idempotency-Key": "two"})).text


@pytest.mark.parametrize("is_shared", [False, True])
async def test_requests_with_one_key_at_once_follow_one_run(tmp_path: Path, redis_url: str, is_shared: bool) -> None:
    options: dict[str, Any] = {"sections": {"checkpoint_prefix": fresh_prefix()}}
    if is_shared:
        options["journal"] = SecretStr(redis_url)
    async with start_app(tmp_path, [Reply(chunks=["Hel", "lo"], pause_s=0.2)], **options) as server:
        agent_id = await server.agent(MODEL)
        async with start_app(tmp_path, [Reply(chunks=["Hel", "lo"], pause_s=0.2)], **options) as second:
            path, body = routes(agent_id)["native"]
            others = [second if is_shared else server] * 2
            auth = {"Authorization": f"Bearer {server.key}", **KEY}
            asked = [each.client.post(each.url + path, json=body, headers=auth) for each in (server, *others)]
            answers = [answer.json() for answer in await asyncio.gather(*asked)]
            assert {answer["answer"] for answer in answers} == {"Hello"}
            assert (len({answer["id"] for answer in answers}), await count_runs(server, agent_id)) == (1, 1)


async def test_a_form_that_is_answered_again_with_the_key_is_answered_once(server: AppServer) -> None:
    path = f"{server.url}/native/v1/agents/{await server.agent(FORM)}/runs"
    run = await server.post(path, {})
    answers: dict[str, Any] = {"fields": {"size": 3}}
    first, again = [await server.post(f"{path}/{run['id']}/resume", answers, headers=KEY) for _ in range(2)]
    assert (first["status"], first["answer"], again) == ("succeeded", "Size 3", first)


async def test_visitors_of_a_page_get_no_run_of_each_other(server: AppServer) -> None:
    server.model.replies += [Reply("One"), Reply("Two")]
    page = await server.new_key(kind="beta")
    path, auth = f"/agentbots/{await server.agent(MODEL)}", {"Authorization": f"Bearer {page}"}
    visitors = [(await server.client.get(f"{path}/inputs", headers=auth)).headers[VISITOR_HEADER] for _ in range(2)]
    answers: list[str] = []
    for visitor in (*visitors, *visitors):
        headers = {**auth, **KEY, VISITOR_HEADER: visitor}
        body = {"query": "hi", "stream": False}
        answers.append((await server.client.post(f"{path}/completions", json=body, headers=headers)).text)
    assert [("One" in answer, "Two" in answer) for answer in answers] == [(True, False), (False, True)] * 2


@asynccontextmanager
async def open_request(
    folder: Path, status: str, age_ms: int, *, has_record: bool
) -> AsyncGenerator[tuple[AppServer, Callable[[], Coroutine[Any, Any, httpx.Response]]]]:
    """Start a server that knows the run `first` of a request only by its row. Yield what repeats the request."""
    async with start_app(folder, [Reply("Hello"), Reply("Again")]) as server:
        path, body = routes(await server.agent(MODEL))["native"]

        async def repeat() -> httpx.Response:
            return await server.client.post(server.url + path, json=body, headers=KEY)

        session = (await repeat()).json()["session_id"]
        runs = RunRepository(server.app_state.database, server.tenant)
        begun = await runs.newest(session)
        assert begun is not None
        await runs.set(begun.id, request_key=None)
        first = RunRow(id=FIRST, agent_id=begun.agent_id, version_id="v", session_id=session, status=status)
        first.start_ms, first.request_key = server.app_state.now_ms() - age_ms, begun.request_key
        first.request_hash = begun.request_hash
        await runs.add(first)
        if has_record:
            await server.app_state.store.runs.put(RunRecord(FIRST, session))
        yield server, repeat


@pytest.mark.parametrize("status", ["running", "drained", "refused"])
async def test_a_run_that_never_began_frees_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr(turns, "LOST_MS", 200)
    async with open_request(tmp_path, status, 0, has_record=False) as (_, repeat):
        answer = (await repeat()).json()
        assert (answer["answer"], answer["id"] == FIRST) == ("Again", False)


@pytest.mark.parametrize("status", ["running", "drained"])
async def test_no_second_run_begins_while_another_process_may_continue_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """Its events are in the memory of that process, or were in that of a dead one."""
    monkeypatch.setattr(turns, "WAIT_MS", 200)
    async with open_request(tmp_path, status, 60_000, has_record=True) as (server, repeat):
        busy = await repeat()
        assert (busy.status_code, "has not ended" in busy.text) == (429, True)
        monkeypatch.setattr(turns, "WAIT_MS", 60_000)
        repeating = asyncio.create_task(repeat())
        await asyncio.sleep(0.2)
        assert not repeating.done()
        await RunRepository(server.app_state.database, server.tenant).end(FIRST, "succeeded", "", Usage(), 1)
        assert ((await repeating).json()["id"], len(server.model.requests)) == (FIRST, 1)


async def test_a_request_that_was_not_stored_may_be_repeated(
    server: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.model.replies += [Reply("Hello")]
    path, body = routes(await server.agent(MODEL))["native"]
    with monkeypatch.context() as failing:
        begin = AsyncMock(side_effect=StreamError("Redis is away."))
        failing.setattr(server.app_state.run_manager.journal, "begin", begin)
        assert (await server.client.post(server.url + path, json=body, headers=KEY)).status_code == 503
    assert (await server.post(server.url + path, body, headers=KEY))["answer"] == "Hello"


async def test_a_request_begins_after_the_same_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was answered with 503."""
    async with open_request(tmp_path, "refused", 0, has_record=False) as (server, repeat):
        find, found = server.turns.find_repeated, [None]

        async def find_later(tenant: str) -> Turn | None:
            return found.pop() if found else await find(tenant)

        monkeypatch.setattr(server.turns, "find_repeated", find_later)
        assert (await repeat()).json()["answer"] == "Again"
