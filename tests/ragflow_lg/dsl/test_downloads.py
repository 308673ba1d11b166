import json

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.downloads import show_value
from tests.harness.rows import each_row

INFO: dict[str, JsonValue] = {"doc_id": "1", "filename": "a.pdf", "mime_type": "application/pdf"}
PRINTED: dict[str, JsonValue] = {**INFO, "include_download_info_in_content": True}


@each_row("value", [INFO, [INFO], json.dumps(INFO), json.dumps([INFO])])
def test_download_info_is_removed_from_the_text(value: JsonValue) -> None:
    assert show_value(value).downloads == [INFO]
    assert show_value(value).text == ""


def test_the_flag_prints_download_info_as_well() -> None:
    assert json.loads(show_value(PRINTED).text) == INFO
    assert json.loads(show_value([PRINTED]).text) == [INFO]
    assert json.loads(show_value(json.dumps(PRINTED)).text) == INFO


@each_row("value", [None, "text", [], [INFO, 3], {"doc_id": "1"}, '{"doc_id": broken', 3])
def test_everything_else_is_text(value: JsonValue) -> None:
    assert show_value(value).downloads == []
    assert show_value([]).text == "[]"
