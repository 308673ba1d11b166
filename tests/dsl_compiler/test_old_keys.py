from typing import Any

from ragflow_lg.dsl_compiler.old_keys import with_new_keys
from tests.fakes.canvas import CATALOG


def spec(name: str) -> Any:
    return CATALOG.get(name)


def test_an_old_key_is_read_where_the_component_has_the_new_one() -> None:
    assert with_new_keys({"a": 1, "llm_enabled_tools": [2], "tools": []}, spec("Agent")) == {"a": 1, "tools": [2]}


def test_it_is_left_alone_elsewhere() -> None:
    for params, name in (({"llm_enabled_tools": [2]}, "LLM"), ({"llm_enabled_tools": [2], "tools": [3]}, "Agent")):
        assert with_new_keys(params, spec(name)) is params
