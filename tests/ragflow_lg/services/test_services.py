from ragflow_lg.services.tool_policies import ToolSettings


def test_tool_settings_are_normalised_and_hide_their_keys() -> None:
    tools = ToolSettings({"acme": "http://a/"}, {"acme": " k\n"})
    assert [tools.endpoint(name, "http://b/") for name in ("acme", "other")] == ["http://a", "http://b"]
    assert [tools.key(name) for name in ("acme", "other")] == ["k", ""]
    assert "k\\n" not in repr(tools)
