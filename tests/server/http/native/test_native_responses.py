from __future__ import annotations

import json

from ragflow_lg.server.http.native.native_responses import CheckAnswer, MessageAnswer, respond_model


def test_answers_are_json_whatever_texts_hold() -> None:
    said = MessageAnswer(role="user", content="\ud800 ü", run_id="", reference=[{1: "one", "x": None}], create_ms=1)
    answer = respond_model(said, 201, {"Location": "/x"})
    assert (answer.status_code, answer.headers["location"], answer.media_type) == (201, "/x", "application/json")
    assert json.loads(bytes(answer.body)) == {
        "role": "user",
        "content": "? ü",
        "run_id": "",
        "reference": [{"1": "one", "x": None}],
        "create_ms": 1,
    }
    assert json.loads(bytes(respond_model(CheckAnswer(runs=True, diagnostics=[])).body)) == {
        "runs": True,
        "diagnostics": [],
    }
    odd = MessageAnswer(role="user", content="", run_id="", reference=[float("nan")], create_ms=1)
    assert json.loads(bytes(respond_model(odd).body))["reference"] == [None]
