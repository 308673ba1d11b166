import json
from typing import Any

from ragflow_lg.server.assembly.canvas_openings import describe_openings
from ragflow_lg.server.settings import Settings
from tests.fakes.canvas import canvas, node
from tests.harness.rows import each_row

CODE: dict[str, Any] = {"lang": "python", "script": "def main():\n    return 1", "arguments": {}, "outputs": {}}
SQL = {"db_type": "mysql", "host": "10.0.0.5", "database": "d", "username": "u", "password": "LEAK", "sql": "SELECT 1"}
MAIL = {"smtp_server": "smtp.evil.example", "email": "a@b", "password": "LEAK"}


def opened(name: str, params: dict[str, Any]) -> str:
    return describe_openings(json.dumps(canvas({"a": node(name, params)})), Settings())


@each_row(
    ("name", "params", "said"),
    [
        ("Invoke", {"url": "{sys.query}"}, "Invoke (reads, at {sys.query})"),
        ("Invoke", {"url": "http://{env.host}/x", "method": "POST"}, "Invoke (writes, at http://{env.host}/x)"),
        ("Invoke", {"url": "http://u:LEAK@10.0.0.8/x?token=LEAK"}, "Invoke (reads, at http://10.0.0.8)"),
        (
            "Invoke",
            {"url": "10.0.0.8/x", "proxy": "http://u:LEAK@10.0.0.9:1"},
            "Invoke (reads, at 10.0.0.8, at http://10.0.0.9:1)",
        ),
        ("ExeSQL", SQL, "ExeSQL (may write, at 10.0.0.5)"),
        ("Email", MAIL, "Email (writes, at smtp.evil.example)"),
        ("CodeExec", CODE, "CodeExec (costs money or time)"),
        ("Browser", {"url": "http://10.0.0.1"}, "Browser (costs money or time, at http://10.0.0.1)"),
        ("SearXNG", {"searxng_url": "http://10.0.0.6/", "query": "x"}, "SearXNG (reads, at http://10.0.0.6)"),
        ("Wikipedia", {"query": "x"}, "Wikipedia (reads)"),
        ("LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "x"}]}, "LLM (costs money or time)"),
    ],
)
def test_components_with_effects_are_said_with_their_addresses(name: str, params: dict[str, Any], said: str) -> None:
    text = opened(name, params)
    assert said in text
    assert "LEAK" not in text
    assert "the address ," not in text


def test_tools_of_sub_agents_are_said() -> None:
    agent = {"llm_id": "m", "prompts": [{"role": "user", "content": "x"}], "mcp": []}
    mail = {"component_name": "Email", "name": "mail", "params": MAIL}
    inner = {"component_name": "Agent", "name": "inner", "params": {**agent, "tools": [mail]}}
    assert "Email (writes, at smtp.evil.example)" in opened("Agent", {**agent, "tools": [inner]})


def test_components_without_effects_open_nothing() -> None:
    assert opened("Message", {"content": ["See http://x.example"]}) == "it opens nothing"
