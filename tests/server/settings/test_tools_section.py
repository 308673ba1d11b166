from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from ragflow_lg.server.settings import McpSection, ToolSection


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"url": SecretStr("http://a.example/"), "command": "c"},
        {"command": "c", "type": "sse"},
        {"url": SecretStr("http://a.example/"), "type": "stdio"},
    ],
)
def test_a_server_of_tools_is_reached_in_one_way(values: dict[str, Any]):
    assert McpSection(command="c", type="stdio").command == "c"
    with pytest.raises(ValidationError):
        McpSection(**values)


def test_an_endpoint_is_an_address_or_nothing():
    assert ToolSection(endpoint=" ").endpoint == ""
    with pytest.raises(ValidationError, match="http://"):
        ToolSection(endpoint="a.example")
