from typing import Any

import httpx
import pytest

from ragflow_lg.server.database.feedback_repository import FeedbackRepository
from tests.server.http.app_server import ECHO, AppServer
from tests.server.http.native.native_client import PREFIX, native, play_one, problem

VISITOR = "X-RAGFlow-Visitor"


async def visit(server: AppServer, agent_id: str, page: dict[str, str]) -> tuple[dict[str, str], str]:
    """Play a turn as a new visitor of a page. Return the visitor's headers, and the run."""
    shown = await server.client.get(f"/agentbots/{agent_id}/inputs", headers=page)
    headers = {**page, VISITOR: shown.headers[VISITOR]}
    body = {"query": "Hi", "stream": False}
    played = await server.post(f"/agentbots/{agent_id}/completions", body, headers=headers)
    return headers, played["data"]["message_id"]


async def ratings(client: httpx.AsyncClient, query: str = "") -> list[tuple[str, str]]:
    listed = (await client.get(f"/feedback{query}")).json()["feedback"]
    return [(row["rating"], row["note"]) for row in listed]


async def test_an_answer_is_rated_once_and_the_rating_is_taken_back(server: AppServer) -> None:
    client, run = await play_one(server, ECHO)
    path, session = f"/runs/{run['id']}/feedback", f"/sessions/{run['session_id']}"
    assert (await client.put(path, json={"rating": "up"})).json() == {"rating": "up", "note": ""}
    (first,) = (await client.get("/feedback")).json()["feedback"]
    note = "x" * 2000
    await client.put(path, json={"rating": "down", "note": note})
    listed = (await client.get("/feedback")).json()
    (row,) = listed["feedback"]
    assert listed["total"] == 1
    assert row == {**first, "rating": "down", "note": note, "update_ms": row["update_ms"]}
    assert (row["run_id"], row["session_id"], bool(row["author"])) == (run["id"], run["session_id"], True)
    messages = (await client.get(session)).json()["messages"]
    assert [each["feedback"] for each in messages] == [None, {"rating": "down", "note": note}]
    assert (await client.put(path, json={"rating": None})).json() == {"rating": None, "note": ""}
    assert (await client.get("/feedback")).json() == {"feedback": [], "total": 0}
    assert (await client.get(session)).json()["messages"][1]["feedback"] is None
    invalid: list[Any] = [{}, {"rating": "good"}, {"rating": "up", "note": note + "x"}, {"rating": None, "note": "x"}]
    for body in invalid:
        assert problem(await client.put(path, json=body)) == (422, "invalid")


async def test_feedback_is_listed_newest_first_by_rating_time_and_page(server: AppServer) -> None:
    client, first = await play_one(server, ECHO)
    runs = [first, *[(await client.post("/runs", json={"query": "more"})).json() for _ in range(2)]]
    for number, run in enumerate(runs):
        rating = "down" if number == 1 else "up"
        await client.put(f"/runs/{run['id']}/feedback", json={"rating": rating, "note": str(number)})
    assert sorted(await ratings(client)) == [("down", "1"), ("up", "0"), ("up", "2")]
    assert await ratings(client, "?rating=down") == [("down", "1")]
    rows = (await client.get("/feedback")).json()["feedback"]
    assert [row["update_ms"] for row in rows] == sorted((row["update_ms"] for row in rows), reverse=True)
    assert await ratings(client, f"?since={rows[0]['update_ms'] + 1}") == []
    assert len(await ratings(client, f"?since={rows[-1]['update_ms']}")) == 3
    assert await ratings(client, "?page_size=2&page=2") == [(rows[2]["rating"], rows[2]["note"])]
    assert problem(await client.get("/feedback?rating=good")) == (422, "invalid")
    other = native(server, await server.agent(ECHO, "Other"))
    assert await ratings(other) == []
    assert problem(await other.put(f"/runs/{first['id']}/feedback", json={"rating": "up"})) == (404, "not-found")
    strange = {"Authorization": f"Bearer {await server.new_key('stranger')}"}
    for answer in (
        await client.put(f"/runs/{first['id']}/feedback", json={"rating": "down"}, headers=strange),
        await client.get("/feedback", headers=strange),
    ):
        assert problem(answer) == (404, "not-found")


@pytest.mark.parametrize("of_agent", [False, True])
async def test_what_is_rated_takes_the_feedback_with_it(server: AppServer, *, of_agent: bool) -> None:
    client, run = await play_one(server, ECHO)
    await client.put(f"/runs/{run['id']}/feedback", json={"rating": "up"})
    if of_agent:
        await server.client.delete(f"/agents/{run['agent_id']}")
        assert problem(await client.get("/feedback")) == (404, "not-found")
    else:
        await client.delete(f"/sessions/{run['session_id']}")
        assert problem(await client.put(f"/runs/{run['id']}/feedback", json={"rating": "up"})) == (404, "not-found")
    assert await FeedbackRepository(server.app_state.database, server.tenant).of_runs([run["id"]]) == {}


async def test_visitors_rate_only_answers_that_they_have_received(server: AppServer) -> None:
    client, owners = await play_one(server, ECHO)
    agent_id = owners["agent_id"]
    page = await server.page(agents=[agent_id])
    one, mine = await visit(server, agent_id, page)
    two, theirs = await visit(server, agent_id, page)
    other_agent = await server.page(agents=[await server.agent(ECHO)])
    path = f"{server.url}{PREFIX}/agents/{agent_id}/runs/{mine}/feedback"
    guest = server.stranger()
    rated = await guest.put(path, json={"rating": "down", "note": "Wrong"}, headers=one)
    assert rated.json() == {"rating": "down", "note": "Wrong"}
    foreign = path.replace(mine, owners["id"])
    for place, headers in (
        (path, two),
        (path, page),
        (path, other_agent),
        (path.replace(mine, theirs), one),
        (foreign, one),
    ):
        assert problem(await guest.put(place, json={"rating": "up"}, headers=headers)) == (404, "not-found")
    assert problem(await guest.put(path, json={"rating": "up"})) == (401, "unauthorized")
    assert problem(await guest.get(path.split("/runs")[0] + "/feedback", headers=one)) == (401, "unauthorized")
    assert await ratings(client) == [("down", "Wrong")]
    await client.put(f"/runs/{mine}/feedback", json={"rating": "up"})  # the owner may as well
    assert await ratings(client) == [("up", "")]


async def test_the_answers_of_a_copy_are_rated_after_the_original_is_deleted(server: AppServer) -> None:
    client, run = await play_one(server, ECHO)
    later = (await client.post("/runs", json={"query": "more", "session_id": run["session_id"]})).json()
    copy = (await client.post(f"/runs/{later['id']}/fork", json={})).json()
    await client.delete(f"/sessions/{run['session_id']}")
    path, session = f"/runs/{run['id']}/feedback", f"/sessions/{copy['session_id']}"
    rated = {"rating": "down", "note": "Old"}
    assert (await client.put(path, json=rated)).json() == rated
    messages = (await client.get(session)).json()["messages"]
    assert [each["feedback"] for each in messages] == [None, rated, None, None]
    await client.put(path, json={"rating": None})
    assert await ratings(client) == []
    await client.put(path, json=rated)
    strange = {"Authorization": f"Bearer {await server.new_key('stranger')}"}
    assert problem(await client.put(path, json=rated, headers=strange)) == (404, "not-found")
    await client.delete(session)
    assert await ratings(client) == []
    assert problem(await client.put(path, json=rated)) == (404, "not-found")
