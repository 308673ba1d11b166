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
def test_an_mcp_server_has_either_a_url_or_a_command(values: dict[str, Any]) -> None:
    assert McpSection(command="c", type="stdio").command == "c"
    with pytest.raises(ValidationError):
        McpSection(**values)


def test_an_endpoint_is_a_web_address_or_empty() -> None:
    assert ToolSection(endpoint=" ").endpoint == ""
    with pytest.raises(ValidationError, match="http://"):
        ToolSection(endpoint="a.example")
