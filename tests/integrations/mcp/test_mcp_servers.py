from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base import extras
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.mcp import mcp_session
from ragflow_lg.integrations.mcp.mcp_servers import MAX_SESSIONS, McpServer, McpServers, build_headers, probe_servers
from ragflow_lg.integrations.mcp.mcp_settings import McpServerSettings, substitute
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.tool_policies import ServerAnswer
from tests.fakes.mcp_servers import REAL, TINY, text_of, tiny
from tests.harness.rows import each_row

WEB = McpServerSettings("streamable-http", url="https://mcp.test/mcp", headers={"X": "$v"}, variables={"v": "geheim"})


class FakeConnection:
    """A session that follows the script of its class: each entry is an answer or an error."""

    instances: list[FakeConnection]
    script: list[Any]

    def __init__(self, settings: Any, headers: Any, http: Any) -> None:
        self.settings, self.headers = settings, headers
        self.loop = asyncio.get_running_loop()
        self.has_ended = self.is_open = self.is_busy = False
        self.is_closed = False
        self.instances.append(self)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ServerAnswer:
        step = self.script.pop(0) if self.script else "ok"
        self.is_open = True
        if step == "busy":
            self.is_busy = True
        if step in ("refused", "broken"):
            self.has_ended = True
            raise ServiceError(step, is_retryable=step == "refused")
        return ServerAnswer((step,))

    async def tools(self) -> list[Any]:
        return [SimpleNamespace(name=name, description="", inputSchema={}) for name in ("read", "write")]

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[FakeConnection]:
    FakeConnection.instances, FakeConnection.script = [], []

    monkeypatch.setattr(mcp_session, "McpSession", FakeConnection)
    return FakeConnection.instances


def server_of(settings: McpServerSettings = WEB) -> McpServer:
    return McpServers({"s": settings}, GuardedHttpClient(HttpSettings()))["s"]


async def call(server: McpServer, headers: Mapping[str, str] | None = None) -> str:
    return (await server.call("t", {}, headers or {})).texts[0]


async def test_agents_share_a_session_unless_their_headers_differ(connections: list[FakeConnection]) -> None:
    servers = McpServers({"s": WEB}, GuardedHttpClient(HttpSettings()))
    for headers in ({}, {"Y": "1"}):
        await asyncio.gather(*(servers.call("s", "t", {}, headers) for _ in range(2)))
    assert [session.headers for session in connections] == [{"X": "geheim"}, {"X": "geheim", "Y": "1"}]
    await servers.aclose()
    assert all(session.is_closed for session in connections)


async def test_headers_of_a_canvas_are_ignored_for_a_process(connections: list[FakeConnection]) -> None:
    server = server_of(McpServerSettings("stdio", "cmd", ("$v",), {"TOKEN": "$v"}, variables={"v": "geheim"}))
    await call(server, {"Y": "1"})
    await call(server)
    assert len(connections) == 1
    assert (connections[0].settings.args, connections[0].settings.env) == (("$v",), {"TOKEN": "geheim"})


async def test_a_call_that_was_not_processed_is_repeated_on_a_new_session(connections: list[FakeConnection]) -> None:
    server = server_of()
    FakeConnection.script = ["first", "refused", "second"]
    assert [await call(server), await call(server)] == ["first", "second"]
    assert len(connections) == 2


@pytest.mark.parametrize(("script", "calls"), [(["ok", "broken"], 2), (["refused"], 1)])
async def test_no_other_call_is_repeated(connections: list[FakeConnection], script: list[str], calls: int) -> None:
    server = server_of()
    FakeConnection.script = list(script)
    for _ in range(calls - 1):
        await call(server)
    with pytest.raises(ServiceError, match=script[-1]):
        await call(server)
    assert await call(server) == "ok"  # the next call opens a new session
    assert len(connections) == 2


async def test_the_least_recently_used_idle_sessions_are_closed(connections: list[FakeConnection]) -> None:
    server = server_of()
    FakeConnection.script = ["busy"]
    for number in range(MAX_SESSIONS + 3):
        await call(server, {"Y": str(number)})
    await asyncio.sleep(0)
    assert [i for i, session in enumerate(connections) if session.is_closed] == [1, 2, 3]


async def test_an_invalid_url_is_an_error_that_does_not_repeat_it(connections: list[FakeConnection]) -> None:
    with pytest.raises(ServiceError, match=r"url of \[mcp.\"s\"\]") as caught:
        await call(server_of(McpServerSettings("sse", url="ftp://user:geheim@host/")))
    assert "geheim" not in str(caught.value)


@pytest.mark.usefixtures("connections")
async def test_only_allowed_tools_are_listed_and_pass_the_check() -> None:
    settings = {"s": McpServerSettings("stdio", "cmd", allow=("read",))}
    servers = McpServers(settings, GuardedHttpClient(HttpSettings()))
    assert [tool.name for tool in await servers.list_tools("s")] == ["read"]
    servers.check("s", "read")
    with pytest.raises(SettingsError, match=r"'write' of the MCP server 's'. Add it to allow in \[mcp.\"s\"\]"):
        servers.check("s", "write")
    with pytest.raises(SettingsError, match="no MCP server 'none'"):
        servers.check("none", "read")


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None:
        return None

    monkeypatch.setattr(extras, "find_spec", find_nothing)
    with pytest.raises(SettingsError, match=r"pip install '[^']*\[mcp\]'"):
        server_of().check("t")


def test_servers_outlive_their_event_loop() -> None:
    servers = McpServers({"s": tiny()}, GuardedHttpClient(HttpSettings()))

    async def turn() -> str:
        return await text_of(servers, "process")

    async def last() -> str:
        text = await turn()
        await servers.aclose()
        return text

    assert asyncio.run(turn()) != asyncio.run(last())


@each_row(
    ("headers", "variables", "own", "sent"),
    [
        (
            {"X-$kind": "${token}", "Authorization": "Bearer $token"},
            {"kind": "Key", "token": "abc"},
            {},
            {"X-Key": "abc", "Authorization": "Bearer abc"},
        ),
        *(
            ({"Authorization": value, " ": "x"}, {"token": ""}, {}, {})
            for value in ("", "  ", "Bearer ", "bearer", "$token")
        ),
        ({"X-Area": "area"}, {}, {}, {"X-Area": "area"}),
        ({"X-Team": "a", "X-More": "b"}, {}, {"x-team": "c"}, {"x-team": "c", "X-More": "b"}),
        # A canvas cannot read variables of the settings.
        (
            {},
            {"token": "abc"},
            {"X-Token": "$token", "who": "me", "X-Who": "$who"},
            {"X-Token": "$token", "who": "me", "X-Who": "me"},
        ),
        (
            {},
            {},
            {"Host": "evil.test", "Content-Length": "0", "Mcp-Session-Id": "x", "Transfer-Encoding": "chunked"},
            {},
        ),
    ],
)
def test_headers_of_settings_and_canvas(headers: Any, variables: Any, own: Any, sent: dict[str, str]) -> None:
    assert build_headers(headers, variables, own) == sent


def test_known_names_are_substituted_and_invalid_headers_rejected() -> None:
    assert substitute("$a ${a}b $$a $z ${z} $", {"a": "1"}) == "1 1b $a $z ${z} $"
    assert "geheim" not in repr(WEB)
    for own in ({"X y": "1"}, {"X": "a\r\nB: c"}, {"X\n": "a:b", "Ü": "1"}):
        with pytest.raises(ServiceError, match="header"):
            build_headers({}, {}, own)


async def test_every_server_lists_its_tools() -> None:
    def command(*args: str) -> dict[str, Any]:
        return {"command": sys.executable, "args": args, "timeout_s": 1}

    inside = {"url": "http://127.0.0.1:1/mcp"}
    settings = Settings.model_validate(
        {
            "mcp": {
                "real": {**command(*REAL), "timeout_s": 60},
                "tiny": command(*TINY, "well"),
                "ill": command(*TINY, "crash"),
                "in": inside,
            }
        }
    )
    real, tiny, ill, in_ = await probe_servers(settings)
    assert (real.is_well, real.what.split(",")[0]) == (True, "MCP server real offers add")
    assert (tiny.is_well, tiny.advice) == (False, 'See timeout_s of [mcp."tiny"].')
    assert (ill.what, "has ended" in ill.advice) == ("MCP server ill cannot be used", True)
    assert (in_.what, "[http] allow" in in_.advice) == ("MCP server in cannot be used", False)
