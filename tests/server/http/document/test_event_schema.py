from __future__ import annotations

from ragflow_lg.server.http.document.event_schema import build_event_schema


def test_the_data_of_an_event_is_json_or_the_end() -> None:
    assert build_event_schema({"type": "object"})["properties"]["data"]["contentSchema"] == {"type": "object"}
    assert build_event_schema({}, end="[DONE]")["properties"]["data"]["anyOf"][1] == {"const": "[DONE]"}
