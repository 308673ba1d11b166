import json
from typing import Any

from ragflow_lg.base.errors import (
    AnswerError,
    CanvasChangedError,
    CompileError,
    ConflictError,
    DatabaseError,
    RagflowLgError,
    RequestError,
)
from ragflow_lg.server.http.shared.responses import encode_json, respond_error, to_request_error
from tests.harness.rows import each_row


@each_row(
    ("value", "text"),
    [
        ({"a": "é\U0001f600", "b": [1, None]}, '{"a":"é\U0001f600","b":[1,null]}'),
        ({386: "chunk"}, '{"386":"chunk"}'),
        ([float("nan"), object()], "[null,null]"),
        (2**70, "1180591620717411303424"),
        ("a\ud800", r'"a\ud800"'),
        (
            {"a": "\ud800", "b": [float("nan"), float("-inf")], 1: 2**70},
            r'{"a":"\ud800","b":[null,null],"1":1180591620717411303424}',
        ),
    ],
)
def test_every_value_is_encoded_as_json(value: Any, text: str) -> None:
    assert encode_json(value).decode() == text


@each_row(
    ("error", "number", "status"),
    [
        (RequestError("no", 102, status=404), 102, 200),
        (RequestError("no", 401, status=401), 401, 401),
        (RequestError("no", 413, status=413), 413, 413),
        (CompileError([]), 101, 200),
        (AnswerError({"a": "no"}), 101, 200),
        (ConflictError("busy"), 103, 200),
        (CanvasChangedError("no"), 103, 200),
        (DatabaseError("no"), 500, 200),
    ],
)
def test_errors_have_ragflows_numbers(error: RagflowLgError, number: int, status: int) -> None:
    response = respond_error(to_request_error(error))
    assert (json.loads(bytes(response.body))["code"], response.status_code) == (number, status)
