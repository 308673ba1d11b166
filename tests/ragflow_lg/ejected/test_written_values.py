from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.ejected import as_list, collected, first_value, merge, output, show, split_text, variable


def test_a_message_strips_the_tags_of_thinking_and_offers_files() -> None:
    file: dict[str, Any] = {"doc_id": "1", "filename": "a.pdf", "mime_type": "application/pdf"}
    assert show("<think>hm</think>", "Yes", file) == {"content": "hmYes", "downloads": [file]}


def test_a_value_of_the_wrong_type_is_named() -> None:
    with pytest.raises(ComponentError, match="x is a map"):
        as_list({}, "x is a {type}.")
    with pytest.raises(ComponentError, match="must be a string"):
        split_text(["a"], [","])


def test_what_was_not_stored_has_a_default() -> None:
    assert output({}, "a", "x") == ""
    assert output({"a": {}}, "a", "x", default=None) is None
    assert variable({}, "env.x") == ""
    assert first_value("", None, 0, 1) == 0
    assert collected({"a": {"_ERROR": "down", "x": 1}}, "a", "x") == ""


def test_an_empty_update_removes_all_outputs() -> None:
    assert merge({"a": 1}, {}) == {}
    assert merge(None, {"a": 1}) == {"a": 1}
