from ragflow_lg.services.chat import NO_USAGE, ONE_CALL, Usage
from ragflow_lg.services.tool_policies import ToolSettings


def test_usage_adds_up() -> None:
    total = NO_USAGE.plus(Usage(10, 5, 1, 0.5)).plus(ONE_CALL)
    assert total == Usage(10, 5, 2, 0.5)


def test_tool_settings_are_normalised_and_hide_their_keys() -> None:
    tools = ToolSettings({"acme": "http://a/"}, {"acme": " k\n"})
    assert [tools.endpoint(name, "http://b/") for name in ("acme", "other")] == ["http://a", "http://b"]
    assert [tools.key(name) for name in ("acme", "other")] == ["k", ""]
    assert "k\\n" not in repr(tools)
