from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from ragflow_lg.server.http.native.native_run_routes import router
from ragflow_lg.server.http.native.validation_messages import describe_fault, format_location, list_known_names
from tests.server.http.app_server import ECHO, canvas
from tests.server.http.native.native_client import native_agent, problem

ASKING = canvas(
    ("begin", "Begin", {"mode": "task", "inputs": {"city": {"name": "City", "type": "line"}}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["To {begin@city}"]}, []),
)


def test_the_names_of_a_route_are_listed() -> None:
    routes = {route.name: route for route in router.routes if isinstance(route, APIRoute)}
    assert list_known_names(routes["continue_run"], "body") == []
    assert {"query", "inputs", "resume_from"} <= set(list_known_names(routes["begin_run"], "body"))
    assert set(list_known_names(routes["begin_run"], "query")) == {"mode", "on_disconnect", "records"}
    assert set(list_known_names(routes["follow_run"], "query")) == {"from", "records"}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"type": "missing", "loc": ("body",), "msg": ""}, "is missing: send a JSON object"),
        (
            {"type": "string_too_long", "loc": ("body", "x"), "msg": "", "ctx": {"max_length": 4}},
            "has more than 4 characters",
        ),
        ({"type": "extra_forbidden", "loc": ("query", "x"), "msg": ""}, "is unknown; no names are valid here"),
        ({"type": "new_one", "loc": ("query", "x"), "msg": "Input should be nice"}, "should be nice"),
        ({"type": "string_too_long", "loc": ("query", "x"), "msg": "Too long"}, "Too long"),
    ],
)
def test_faults_are_described(fault: dict[str, Any], message: str) -> None:
    assert describe_fault(fault) == message


def test_locations_omit_internal_steps() -> None:
    assert format_location(("body", "answers", "zz", "[key]")) == "answers.zz"
    assert format_location(("body",)) == "body"


INVALID: list[tuple[str, Any, str, str]] = [
    ("/runs", {"query_text": "x"}, "query_text", "is unknown; did you mean `query`?"),
    ("/runs", {"query": 5}, "query", "must be a string or an object of fields"),
    ("/runs?on_disconnect=stop", {}, "on_disconnect", "must be `cancel`, `continue` or `grace:SECONDS`"),
    ("/runs?on_disconect=cancel", {}, "on_disconect", "is unknown; did you mean `on_disconnect`?"),
    ("/runs?mode=waits", {}, "mode", "must be 'wait', 'background' or 'stream'"),
    ("/runs", {"version": "x" * 33}, "version", "has more than 32 characters"),
    ("/runs", [], "body", "must be a JSON object, sent as application/json"),
    ("/runs/x/resume", {"answers": {"z": {}}}, "answers.z", "is not a pause id: use the ids in the run's `pauses`"),
    ("/runs/x/rerun", {"node": ""}, "node", "must not be empty"),
    ("/runs/x/rerun", {"node": "a", "round": "b"}, "round", "must be a whole number"),
    ("/runs/x/fork", {"checkpoint": "*"}, "checkpoint", "is not a checkpoint id: use one from the session's history"),
    ("/runs/x/continue", {"node": "a"}, "node", "is unknown; no names are valid here"),
    ("/versions", {"dsl": "{}"}, "dsl", "must be an object"),
]


async def test_errors_name_the_field_and_what_is_expected(tmp_path: Path) -> None:
    async with native_agent(tmp_path, ECHO) as (_, client):
        for path, body, location, message in INVALID:
            refused = await client.post(path, json=body)
            assert problem(refused) == (422, "invalid"), refused.text
            assert refused.json()["error"]["details"]["fields"] == {location: message}
            assert f"`{location}` {message}" in refused.json()["error"]["message"]


async def test_inputs_that_are_no_fields_of_begin_are_refused(tmp_path: Path) -> None:
    async with native_agent(tmp_path, ASKING) as (_, client):
        refused = await client.post("/runs", json={"inputs": {"citi": "Rome"}})
        assert problem(refused) == (422, "answer-invalid")
        assert refused.json()["error"]["details"]["fields"] == {
            "citi": "is not a field of Begin's form; did you mean `city`?"
        }
        assert (await client.get("/sessions")).json()["total"] == 0
        run = (await client.post("/runs", json={"inputs": {"city": "Rome"}})).json()
        assert run["answer"] == "To Rome"
        again = {"session_id": run["session_id"], "inputs": {"town": "Rome"}}
        assert problem(await client.post("/runs", json=again)) == (422, "answer-invalid")
