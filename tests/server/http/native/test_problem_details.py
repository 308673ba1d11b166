from typing import Any

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import (
    AnswerError,
    CanvasChangedError,
    CheckpointError,
    CompileError,
    ConflictError,
    DatabaseError,
    RagflowLgError,
    RequestError,
    RunError,
    SessionBusyError,
    StreamError,
    StreamGapError,
    StreamPositionError,
    StreamUnknownError,
)
from ragflow_lg.server.http.native.problem_details import to_problem
from tests.harness.rows import each_row
from tests.server.http.app_server import ECHO, AppServer, says
from tests.server.http.native.native_client import native, problem

ASKING = says(
    "To {begin@city}",
    {"mode": "task", "inputs": {"city": {"name": "City", "type": "line"}, "days": {"type": "integer"}}},
)


@each_row(
    ("error", "status", "code"),
    [
        (RequestError("Gone.", status=404), 404, "not-found"),
        (RequestError("Busy.", 103, status=409, reason="session-busy"), 409, "session-busy"),
        (RequestError("Odd.", status=418), 400, "bad-request"),
        (RequestError("Many.", status=429), 429, "too-many-requests"),
        (AnswerError({"size": "No."}), 422, "answer-invalid"),
        (CanvasChangedError("Other."), 409, "canvas-changed"),
        (ConflictError("Nothing waits."), 409, "conflict"),
        (SessionBusyError("Taken."), 409, "session-busy"),
        (CheckpointError("Down."), 503, "unavailable"),
        (DatabaseError("Down."), 503, "unavailable"),
        (StreamError("Down."), 503, "unavailable"),
        (StreamUnknownError("Who?"), 410, "events-gone"),
        (StreamPositionError("Where?"), 400, "event-unknown"),
        (RunError("Broken."), 500, "run"),
    ],
)
def test_every_error_has_a_status_and_a_code(error: RagflowLgError, status: int, code: str) -> None:
    problem = to_problem(error)
    assert (problem.status, problem.code, problem.message) == (status, code, str(error))


def test_details_are_structured() -> None:
    compile_problem = to_problem(CompileError([Diagnostic("begin-missing", "error", "", "There is no Begin.")]))
    assert (compile_problem.status, compile_problem.code, compile_problem.details["diagnostics"][0]["code"]) == (
        422,
        "canvas-invalid",
        "begin-missing",
    )
    gap = to_problem(StreamGapError("Dropped.", first=7))
    assert (gap.status, gap.code, gap.details) == (410, "events-gone", {"first": 7})
    assert to_problem(AnswerError({"size": "No."}, node="F")).details == {"fields": {"size": "No."}, "node": "F"}


INVALID: list[tuple[str, Any, str, str]] = [
    ("/runs", {"query_text": "x"}, "query_text", "is unknown; did you mean `query`?"),
    ("/runs", {"query": 5}, "query", "must be a string or an object of fields"),
    ("/runs?on_disconnect=stop", {}, "on_disconnect", "must be `cancel`, `continue` or `grace:SECONDS`"),
    ("/runs?on_disconect=cancel", {}, "on_disconect", "is unknown; did you mean `on_disconnect`?"),
    ("/runs?mode=waits", {}, "mode", "should be 'wait', 'background' or 'stream'"),
    ("/runs", {"version": "x" * 33}, "version", "should have at most 32 characters"),
    ("/runs", [], "body", "must be a JSON object, sent as application/json"),
    ("/runs/x/resume", {"answers": {"z": {}}}, "answers.z", "is not a pause id: use the ids in the run's `pauses`"),
    ("/runs/x/rerun", {"node": ""}, "node", "should have at least 1 item after validation, not 0"),
    (
        "/runs/x/rerun",
        {"node": "a", "round": "b"},
        "round",
        "should be a valid integer, unable to parse string as an integer",
    ),
    ("/runs/x/fork", {"checkpoint": "*"}, "checkpoint", "is not a checkpoint id: use one from the session's history"),
    ("/runs/x/continue", {"node": "a"}, "node", "is unknown; no names are valid here"),
    ("/versions", {"dsl": "{}"}, "dsl", "must be an object"),
]


async def test_errors_name_the_field_and_what_is_expected(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    for path, body, location, message in INVALID:
        refused = await client.post(path, json=body)
        assert problem(refused) == (422, "invalid"), refused.text
        assert refused.json()["error"]["details"]["fields"] == {location: message}
        assert f"`{location}` {message}" in refused.json()["error"]["message"]


async def test_inputs_that_are_no_fields_of_begin_are_refused(server: AppServer) -> None:
    client = native(server, await server.agent(ASKING))
    refused = await client.post("/runs", json={"inputs": {"citi": "Rome"}})
    assert problem(refused) == (422, "answer-invalid")
    assert refused.json()["error"]["details"]["fields"] == {
        "citi": "`citi` is not a field of Begin's form; did you mean `city`?"
    }
    assert (await client.get("/sessions")).json()["total"] == 0
    refused = await client.post("/runs", json={"query": "go"})
    fields = {"city": "'City' (city) is required.", "days": "'days' is required."}
    assert refused.json()["error"]["details"]["fields"] == fields
    assert (await client.get("/sessions")).json()["total"] == 0
    run = (await client.post("/runs", json={"inputs": {"city": "Rome", "days": "2"}})).json()
    assert run["answer"] == "To Rome"
    refused = await client.post("/runs", json={"inputs": {"city": "Rome", "days": "many"}})
    assert (problem(refused), "'days'" in refused.text) == ((422, "answer-invalid"), True), refused.text
    again = {"session_id": run["session_id"], "inputs": {"town": "Rome"}}
    assert problem(await client.post("/runs", json=again)) == (422, "answer-invalid")
    again = {"session_id": run["session_id"], "query": "once more"}
    assert problem(await client.post("/runs", json=again)) == (422, "answer-invalid")
