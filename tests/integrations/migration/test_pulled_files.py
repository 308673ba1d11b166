import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent, RemoteMcpServer
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.knowledge.knowledge_settings import KnowledgeSection
from ragflow_lg.integrations.migration.agent_files import build_agent_file
from ragflow_lg.integrations.migration.folder import PulledFolder, read_manifest
from ragflow_lg.integrations.migration.puller import read_local_agent
from ragflow_lg.integrations.migration.settings_text import mcp_variables, write_list, write_settings
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.secret import Secret
from tests.harness.rows import each_row

HASH = "0" * 64


def agent(**fields: Any) -> dict[str, Any]:
    return {"agents": {"a1": {"file": "agents/a.json", "title": "A", "hash": HASH, **fields}}}


@each_row(
    "fields",
    [
        *(agent(file=file) for file in ("../../etc/passwd", "/etc/passwd", "agents/../../x.json", "agents\\x.json")),
        *(agent(file="agents/x.json\n"), agent(hash="abc"), agent(title="x" * 300), agent(update_ms=2**70)),
        agent(surprise=1),
        agent(sessions={"../x": {"file": "sessions/a/x.json", "hash": HASH}}),
        agent(sessions={"x": {"file": "sessions/a/../../x.json", "hash": HASH}}),
        agent(versions={"x": {"file": "versions/a/x.txt", "title": "", "hash": HASH}}),
        {"agents": {"a/b": agent()["agents"]["a1"]}},
        {"agents": {"a1": agent()["agents"]["a1"], "a2": agent()["agents"]["a1"]}},
        *({"agents": []}, {"key_env": "A B"}, {"format": "something else"}, {"version": 2}, {"version": "1"}),
    ],
)
def test_a_damaged_manifest_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"ragflow\.json"):
        read_manifest(json.dumps({"format": "ragflow-lg pull", "version": 1, **fields}).encode())


@each_row("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"7", b" " * (33 * 1024 * 1024)])
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(SettingsError, match=r"ragflow\.json"):
        read_manifest(content)


def test_files_are_replaced_at_once_and_private(tmp_path: Path) -> None:
    folder = PulledFolder(tmp_path / "new")
    assert read_local_agent(folder, "agents/a.json") is None
    folder.write("agents/a.json", b"one")
    folder.write("agents/a.json", f'{{"more": {2**80}}}'.encode())
    local = read_local_agent(folder, "agents/a.json")
    assert local is not None
    assert local.document == {"more": 2**80}
    assert folder.agent_files() == ["agents/a.json"]
    assert [path.name for path in (tmp_path / "new" / "agents").iterdir()] == ["a.json"]
    assert os.stat(tmp_path / "new" / "agents" / "a.json").st_mode & 0o077 == 0


def test_symbolic_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "agents").symlink_to(tmp_path / "outside")
    folder = PulledFolder(tmp_path / "folder")
    with pytest.raises(SettingsError, match="symbolic link"):
        folder.write("agents/a.json", b"x")
    with pytest.raises(SettingsError, match="symbolic link"):
        folder.read("agents/a.json")
    assert (tmp_path / "outside" / "a.json").read_text() == "{}"


def test_large_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(SettingsError, match="larger than 10 bytes"):
        PulledFolder(tmp_path).read("big", 10)
    with pytest.raises(SettingsError, match="not a file"):
        PulledFolder(tmp_path).read("folder.json")


URL = "https://r.example"
WEATHER = RemoteMcpServer(
    "3c", "Weather", "streamable-http", "https://u:pw@w.example/mcp?key=s3cret#x", ("authorization_token",), ("t",)
)


def test_the_settings_are_valid_and_without_secrets() -> None:
    text = write_settings(URL, "THEIR_KEY", [WEATHER], is_linked=True)
    settings = Settings(**tomllib.loads(text))
    knowledge = settings.section(KnowledgeSection)
    assert knowledge.url == "ragflow+https://r.example"
    assert knowledge.api_key == Secret(env="THEIR_KEY")
    assert settings.tool_servers["3c"].url.get_secret_value() == "https://w.example/mcp"
    assert settings.tool_servers["3c"].variables == {"Authorization": Secret(env="RAGFLOW_MCP_WEATHER_AUTHORIZATION")}
    assert "# MCP server Weather: 1 tool\n" in text
    assert "s3cret" not in text
    assert "pw" not in text


HOSTILE = ('a"]\n[server]\nhost = "0.0.0.0', "x\u2028y\x00\x7f", "'''", "\\", "a]b[", "é" * 300, "")


@each_row("text", HOSTILE)
def test_hostile_names_stay_names(text: str) -> None:
    server = RemoteMcpServer(text or "id", text, "sse", f"https://w.example/{text}", (text, "X-Key", "PATH"), (text,))
    parsed = tomllib.loads(write_settings(URL, "THEIR_KEY", [server], is_linked=False))
    assert set(parsed) == {"mcp"}
    assert len(parsed["mcp"]) == 1
    assert all(variable.startswith("RAGFLOW_MCP_") for variable in mcp_variables(server).values())
    page = write_list({text: [text]}, [server], "", [text])
    assert "\x00" not in page
    assert not [line for line in page.splitlines() if line.startswith("[server]")]


@each_row(("kind", "url"), [("stdio", ""), ("sse", "file:///etc/passwd"), ("", "https://w.example")])
def test_only_servers_with_a_web_address_are_set_up(kind: str, url: str) -> None:
    text = write_settings(URL, "K", [RemoteMcpServer("a", "A", kind, url, (), ())], is_linked=False)
    assert tomllib.loads(text) == {}
    assert "left out" in text


def canvas(**params: Any) -> dict[str, Any]:
    return {"components": {"begin": {"obj": {"component_name": "Begin", "params": params}, "downstream": []}}}


def stored(dsl: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    file = build_agent_file(RemoteAgent("a1", "A", dsl))
    return json.loads(file.text)["dsl"]["components"]["begin"]["obj"]["params"], file.blanked


@each_row(
    ("params", "kept"),
    [
        ({"api_key": "abc"}, {"api_key": ""}),
        ({"password": "hunter2"}, {"password": ""}),
        ({"credentials": {"user": "u", "secret": {"x": "y"}}}, {"credentials": {"user": "", "secret": {"x": ""}}}),
        ({"headers": '{"Authorization": "Bearer abcdef0123456789"}'}, {"headers": '{"Authorization": "***"}'}),
        ({"url": "https://u:hunter22@x.example/"}, {"url": "https://u:***@x.example/"}),
        ({"tools": [{"params": {"api_key": "abc"}}]}, {"tools": [{"params": {"api_key": ""}}]}),
    ],
)
def test_keys_are_left_out(params: dict[str, Any], kept: dict[str, Any]) -> None:
    here, blanked = stored(canvas(**params))
    assert here == kept
    assert len(blanked) >= 1
    assert all(place.startswith("begin: ") for place in blanked)


def test_a_node_is_named_once() -> None:
    params = {"security": {"token": {"token_value": "LEAK"}}}
    graph = {"nodes": [{"id": "begin", "data": {"form": params}}]}
    assert stored({**canvas(**params), "graph": graph})[1] == ("begin: token_value",)


@each_row(
    "params",
    [
        {"api_key": "{env.key}"},
        {"updates": [{"key": "name", "value": "x"}]},
        {"variables": [{"key": "token", "value": "{sys.query}"}, {"key": "Authorization", "value": "Bearer {env.t}"}]},
        {"path": "a.key", "filter": [{"key": "pattern", "value": "x"}], "signed": True},
        {"max_tokens": 7, "token": "string"},
        {"prompt": "Say the password policy."},
    ],
)
def test_other_values_stay(params: dict[str, Any]) -> None:
    assert stored(canvas(**params)) == (params, ())


@each_row("label", ["token", "Token", "auth", "pass", "key", "password ", "token2", "pat", "auth_code"])
@each_row("secret", ["LEAK", 12345678, ["LEAK"], {"a": "LEAK"}, "a{b}LEAK", "LEAK{sys.query}"])
def test_values_that_a_label_names_as_secrets_are_left_out(label: str, secret: Any) -> None:
    for at, by in (("key", "value"), ("field", "value"), ("name", "default"), ("key", "text"), ("header", "val")):
        theirs = canvas(variables=[{at: label, by: secret}])
        here, blanked = stored(theirs)
        assert "LEAK" not in str(here)
        assert "12345678" not in str(here)
        assert here["variables"][0][at] == label
        assert blanked


@each_row("name", ["token", "password", "sig", "passwort"])
def test_a_field_with_the_name_of_a_secret_loses_only_its_value(name: str) -> None:
    field = {"name": "Name", "type": "line", "optional": True, "value": "LEAK", "extra": 7}
    here, _ = stored(canvas(inputs={name: field}))
    kept = here["inputs"][name]
    assert (kept["name"], kept["type"], kept["optional"], kept["value"]) == ("Name", "line", True, "")


def test_the_state_of_a_run_is_no_change() -> None:
    ran: dict[str, Any] = {**canvas(), "history": [["user", "hi"]], "path": ["begin"], "globals": {"sys.query": "hi"}}
    idle: dict[str, Any] = {**canvas(), "history": [], "path": [], "globals": {"sys.query": ""}}
    files = [build_agent_file(RemoteAgent("a1", "A", dsl)) for dsl in (ran, idle)]
    assert files[0] == files[1]


def test_huge_canvases_are_refused() -> None:
    with pytest.raises(ServiceError, match="8,000,000 characters"):
        build_agent_file(RemoteAgent("a1", "A", canvas(prompt="x" * 8_000_001)))
