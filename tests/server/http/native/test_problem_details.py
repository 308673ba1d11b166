import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError

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
    RunUnknownError,
    SessionBusyError,
    StreamError,
    StreamGapError,
    StreamPositionError,
)
from ragflow_lg.server.http.native.problem_details import (
    describe_problems,
    is_native_path,
    respond_problem,
    to_problem,
    to_validation_problem,
)


@pytest.mark.parametrize(
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
        (RunUnknownError("Who?"), 410, "events-gone"),
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


def test_validation_errors_are_listed_by_field() -> None:
    faults: list[Any] = [
        {"type": "missing", "loc": ("body", "node"), "msg": "Field required", "input": {}},
        {"type": "int", "loc": ("query", "page"), "msg": "Not a number", "input": "x"},
        {"type": "dict", "loc": ("body",), "msg": "Not a map", "input": []},
    ]
    problem = to_validation_problem(RequestValidationError(faults))
    assert (problem.status, problem.code) == (422, "invalid")
    assert problem.details["fields"] == {"node": "is missing", "page": "Not a number", "body": "Not a map"}
    broken = to_validation_problem(
        RequestValidationError([{"type": "json_invalid", "loc": ("body", 3), "msg": "", "ctx": {"error": "x"}}])
    )
    assert (broken.status, broken.code) == (400, "bad-request")


def test_problems_are_sent_as_json() -> None:
    answer = respond_problem(to_problem(RequestError("<Unauthorized>", 401, status=401)))
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    error = json.loads(bytes(answer.body))["error"]
    assert (error["code"], "Bearer KEY" in error["message"]) == ("unauthorized", True)
    assert set(describe_problems(404)) == {401, 404, 413, 422, 429, 500, 503}
    assert [is_native_path(path) for path in ("/native/v1", "/native/v1/x", "/native/v10", "/v1")] == [
        True,
        True,
        False,
        False,
    ]
