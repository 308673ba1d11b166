"""What an agent needs, and what the page adds to the settings: models, keys and datasets."""

import base64
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.mcp.mcp_settings import list_hosts
from ragflow_lg.server.assembly.page_settings import PageSettings, ServerEntry
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.knowledge import Knowledge
from ragflow_lg.services.tool_policies import ToolServers
from tests.fakes.mcp_servers import http_server
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.database_servers import free_port
from tests.harness.rows import each_row
from tests.server.http.app_server import canvas
from tests.server.http.native.native_client import native
from tests.server.http.own_server import start_own_server

SECRET = "sk-geheim-1234567890"
SUPPORT = canvas(
    ("begin", "Begin", {}, ["Retrieval:Handbook"]),
    ("Retrieval:Handbook", "Retrieval", {"dataset_ids": ["d1"], "query": "sys.query"}, ["LLM:Write"]),
    (
        "LLM:Write",
        "LLM",
        {
            "llm_id": "qwen-max@Gate",
            "prompts": [{"role": "user", "content": "{sys.query} {Retrieval:Handbook@formalized_content}"}],
        },
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{LLM:Write@content}"]}, []),
)

ADDING = canvas(
    ("begin", "Begin", {}, ["Agent:0"]),
    (
        "Agent:0",
        "Agent",
        {
            "prompts": [{"role": "user", "content": "{sys.query}"}],
            "mcp": [{"mcp_id": "files", "tools": {"headers": {"inputSchema": {"type": "object", "properties": {}}}}}],
        },
        [],
    ),
)


async def needs(client: httpx.AsyncClient) -> tuple[bool, list[tuple[str, str]]]:
    found = (await client.get("/needs")).raise_for_status().json()
    return found["ready"], [(need["kind"], need["name"]) for need in found["missing"]]


async def test_what_is_missing_is_added_and_used_without_a_restart(tmp_path: Path) -> None:
    async with MockLLM([reply("ready"), reply("Ten days.")]) as llm:
        provider: dict[str, Any] = {"Local": {"base_url": llm.base_url, "api_key": SECRET}}
        async with start_own_server(tmp_path) as server:
            agent, main = native(server, await server.agent(SUPPORT)), native(server)
            assert await needs(agent) == (False, [("model", "qwen-max@Gate"), ("dataset", "d1")])
            assert (await main.get("/settings")).json()["may_change"] is True

            wrong = {"model": "tiny@Local", "providers": {"Local": {"base_url": "http://127.0.0.1:9/v1"}}}
            assert "cannot be reached" in (await main.post("/settings/try", json=wrong)).json()["problem"]
            tried = (await main.post("/settings/try", json={"model": "tiny@Local", "providers": provider})).json()
            assert (tried["answer"], tried["problem"]) == ("ready", "")
            assert llm.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
            assert await needs(agent) == (False, [("model", "qwen-max@Gate"), ("dataset", "d1")])

            saved = await main.patch(
                "/settings", json={"providers": provider, "models": {"qwen-max@Gate": "tiny@Local"}}
            )
            assert saved.json()["providers"] == [{"name": "Local", "base_url": llm.base_url, "has_key": True}]
            assert saved.json()["usable"] == ["tiny@Local"]
            added = await main.put(
                "/datasets/d1/documents?name=leave.md&dataset_name=Handbook", content=b"# Leave\n\nTen days of leave."
            )
            assert added.json() == {"id": "d1", "name": "Handbook", "documents": 1, "chunks": 1, "state": "added"}
            assert await needs(agent) == (True, [])
            run = (await agent.post("/runs", json={"query": "leave"})).json()
            assert (run["status"], run["answer"]) == ("succeeded", "Ten days.")
            assert "Ten days of leave." in str(llm.requests[-1].body)
            bodies = [(await main.get("/settings")).text, (await main.get("/settings/checks")).text, saved.text]
            assert all(SECRET not in body for body in bodies)
        async with start_own_server(tmp_path) as server:  # after a restart
            assert (await native(server).get("/settings")).json()["usable"] == ["tiny@Local"]
            removed = await native(server).patch("/settings", json={"providers": {"Local": None}})
            assert (removed.json()["providers"], removed.json()["usable"]) == ([], [])


async def test_an_mcp_server_is_added_used_and_removed_without_a_restart(tmp_path: Path) -> None:
    with http_server(port := free_port()):
        files = {"files": {"url": f"http://127.0.0.1:{port}/mcp", "api_key": SECRET}}
        sections = {"mcp": {"other": {"url": "http://127.0.0.1:9/mcp"}}}
        async with start_own_server(tmp_path, sections=sections) as server:
            agent, main = native(server, await server.agent(ADDING)), native(server)
            assert "mcp-server-unknown" in (await agent.get("/needs")).text
            saved = await main.patch("/settings", json={"mcp": files})
            assert saved.json()["mcp"] == [{"name": "files", "has_key": True}]
            assert ("mcp_server", "files") in [
                (need["kind"], need["name"]) for need in (await agent.get("/needs")).json()["present"]
            ]
            servers = server.app_state.services_of(server.tenant).of(ToolServers)
            called = await servers.call("files", "headers", {}, {})
            assert f"authorization: Bearer {SECRET}" in called.texts[0]
            assert servers.serves("other")
            bodies = [await main.get("/settings"), saved, await main.get("/settings/checks")]
            assert [SECRET in body.text for body in bodies] == [False] * 3
            assert "MCP server files offers add, " in bodies[-1].text
        async with start_own_server(tmp_path) as server:  # after a restart
            tested = await server.client.post("/mcp/servers/files/test")
            assert "add" in [tool["name"] for tool in tested.json()["data"]]
            assert (await native(server).patch("/settings", json={"mcp": {"files": None}})).json()["mcp"] == []
            assert (await server.client.get("/mcp/servers")).json()["data"]["total"] == 0


def test_a_key_changes_no_address_that_was_checked() -> None:
    entry = ServerEntry(url="http://$token@127.0.0.1/mcp", api_key=Secret("10.0.0.7/#"))
    settings = PageSettings(mcp={"files": entry}).apply(Settings())
    assert list_hosts({"files": settings.tool_servers["files"].settings()}) == ["127.0.0.1:80"]


async def test_no_mcp_server_is_added_without_the_integration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_own_server(tmp_path) as server:
        monkeypatch.delitem(Settings.model_fields, "mcp")
        refused = await native(server).patch("/settings", json={"mcp": {"files": {"url": "https://example.org/mcp"}}})
        assert (refused.status_code, "integration mcp is not installed" in refused.text) == (422, True)


async def test_another_dataset_is_used_for_a_missing_one(tmp_path: Path) -> None:
    async with start_own_server(tmp_path) as server:
        agent, main = native(server, await server.agent(SUPPORT)), native(server)
        unknown = await main.put("/datasets/d1", json={"use": "Manual"})
        assert unknown.status_code == 404
        await main.put("/datasets/m/documents?name=a.txt&dataset_name=Manual", content=b"Tea is free.")
        assert (await main.put("/datasets/d1", json={"use": "Manual"})).json()["name"] == "Manual"
        assert (await needs(agent))[1] == [("model", "qwen-max@Gate")]
        assert (await server.app_state.services.of(Knowledge).datasets(["d1"]))["d1"].name == "Manual"
        await main.put("/datasets/d1/documents?name=b.txt", content=b"Two.")  # it goes to the dataset that is used
        assert (await main.put("/datasets/d1", json={"use": "m"})).json()["documents"] == 2


async def test_the_demo_answers_for_one_agent(tmp_path: Path) -> None:
    async with start_own_server(tmp_path) as server:
        id_ = await server.agent(SUPPORT)
        agent, other = native(server, id_), native(server, await server.agent(SUPPORT))
        await native(server).patch("/settings", json={"demo": {id_: True}})
        assert ((await needs(agent))[0], (await needs(other))[0]) == (True, False)
        assert (await agent.get("/begin")).json()["is_demo"] is True
        assert (await agent.post("/runs", json={"query": "leave"})).json()["status"] == "succeeded"
        assert (await other.post("/runs", json={"query": "leave"})).json()["status"] == "failed"
        await native(server).patch("/settings", json={"demo": {id_: False}})
        assert (await needs(agent))[0] is False
        unnamed = {"prompts": [{"role": "user", "content": "x"}]}
        plain = native(
            server, await server.agent(canvas(("begin", "Begin", {}, ["LLM:0"]), ("LLM:0", "LLM", unnamed, [])))
        )
        assert await needs(plain) == (True, [("model", "")])  # without a key, the demo model answers as well


async def test_models_that_are_chosen_end_the_demo_of_a_server_until_its_next_start(tmp_path: Path) -> None:
    async with MockLLM([reply("real")]) as llm:
        change = {"providers": {"Local": {"base_url": llm.base_url}}, "default_model": "tiny@Local"}
        plain = canvas(
            ("begin", "Begin", {}, ["LLM:0"]),
            ("LLM:0", "LLM", {"prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:0"]),
            ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
        )
        for title in ("First", "Second"):
            async with start_own_server(tmp_path, model="demo") as server:
                agent, main = native(server, await server.agent(plain, title)), native(server)
                assert (await agent.get("/needs")).json()["is_demo"] is True
                played = await agent.post("/runs", json={"query": "hi"})
                assert (played.headers["x-ragflow-demo"], "real" in played.json()["answer"]) == ("true", False)
                await main.patch("/settings", json=change)
                assert (await agent.get("/needs")).json()["is_demo"] is False
                played = await agent.post("/runs", json={"query": "hi"})
                assert ("x-ragflow-demo" in played.headers, played.json()["answer"]) == (False, "real")


async def test_only_the_owner_adds_to_the_settings_and_only_if_the_operator_allows_it(tmp_path: Path) -> None:
    provider = {"OpenAI": {"api_key": SECRET}}
    calls = (
        ("PATCH", "/settings", {"providers": provider}),
        ("POST", "/settings/try", {"model": "m@OpenAI"}),
        ("PUT", "/datasets/d1/documents?name=a.txt", None),
    )
    async with start_own_server(tmp_path) as server:
        assert (await native(server).patch("/settings", json={"providers": provider})).status_code == 200
        stranger = native(server)
        key = await KeyRepository(server.app_state.database).create("acme", 1)
        stranger.headers["Authorization"] = f"Bearer {key}"
        for method, path, body in (*calls, ("GET", "/settings/checks", None)):
            refused = await stranger.request(method, path, json=body)
            assert (refused.status_code, SECRET in refused.text) == (403, False)
            assert "belong to another tenant" in refused.json()["error"]["message"]
        seen = (await stranger.get("/settings")).json()
        assert (seen["may_change"], seen["providers"], seen["usable"]) == (False, [], [])
    async with start_own_server(tmp_path, page_settings=False) as server:
        for method, path, body in calls:
            refused = await native(server).request(method, path, json=body)
            assert refused.status_code == 403
            assert "set [server] page_settings = true" in refused.json()["error"]["message"]
        seen = (await native(server).get("/settings")).json()  # what is saved stays in use
        assert (seen["may_change"], [each["name"] for each in seen["providers"]]) == (False, ["OpenAI"])


@each_row(
    ("change", "message"),
    [
        ({"providers": {"Local": {"base_url": "http://10.0.0.7/v1"}}}, "not on the public internet"),
        ({"providers": {"Local": {"base_url": "http://169.254.169.254/v1"}}}, "cloud metadata service"),
        ({"providers": {"Local": {"base_url": "ftp://example.org", "api_key": SECRET}}}, "http:// or https://"),
        ({"providers": {"Local": {}}}, "needs `api_key` or `base_url`"),
        ({"mcp": {"files": {"url": "http://10.0.0.7/mcp"}}}, "not on the public internet"),
        ({"mcp": {"files": {"command": "sh", "api_key": SECRET}}}, "`mcp.files.command` is unknown"),
        ({"providers": {"a\nb": {"api_key": SECRET}}}, "must be a name"),
        ({"models": {f"m{number}": "x@Local" for number in range(101)}}, "at most 100"),
    ],
)
async def test_what_cannot_be_used_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    async with start_own_server(tmp_path) as server:
        refused = await native(server).patch("/settings", json=change)
        assert (refused.status_code, message in refused.text, SECRET in refused.text) == (422, True, False)


async def test_what_is_saved_is_encrypted_and_needs_its_key(tmp_path: Path) -> None:
    keys = {"encryption_keys": ({"id": "2027", "key": base64.b64encode(b"k" * 32).decode()},)}
    provider = {"providers": {"OpenAI": {"api_key": SECRET}}}
    for sections, is_plain in (({}, True), (keys, False)):
        folder = tmp_path / str(is_plain)
        folder.mkdir()
        async with start_own_server(folder, sections=sections) as server:
            await native(server).patch("/settings", json=provider)
        assert (SECRET.encode() in b"".join(file.read_bytes() for file in folder.glob("server.db*"))) is is_plain
    with pytest.raises(SettingsError, match="saved on the page cannot be read"):
        async with start_own_server(folder):
            pass


async def test_a_key_goes_to_no_other_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    async with MockLLM() as llm, start_own_server(tmp_path) as server:
        main, elsewhere = native(server), {"OpenAI": {"base_url": llm.base_url}}
        for saved in (False, True):
            if saved:
                await main.patch("/settings", json={"providers": {"OpenAI": {"api_key": SECRET}}})
            await main.post("/settings/try", json={"model": "m@OpenAI", "providers": elsewhere})
        assert [SECRET in str(each.headers) for each in llm.requests] == [False, False]


@each_row(
    ("section", "accepts"),
    [
        ({}, True),
        ({"host": "0.0.0.0"}, False),
        ({"trusted_proxies": ("127.0.0.1",)}, False),
        ({"host": "0.0.0.0", "page_settings": True}, True),
        ({"page_settings": False}, False),
    ],
)
def test_a_server_that_others_reach_takes_no_settings(section: dict[str, Any], accepts: bool) -> None:
    assert ServerSection(**section).accepts_settings is accepts
