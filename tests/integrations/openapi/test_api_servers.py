"""APIs as tools of agents, with a real FastAPI app and its own document."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.integrations.openapi.api_servers import ApiServers, probe_apis
from ragflow_lg.integrations.openapi.openapi_settings import ApiSections
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.sections import AgentsSection
from ragflow_lg.services.tool_policies import ToolPermits, ToolPolicies, ToolServers
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.services import Reply
from tests.fakes.shop_api import KEY, shop
from tests.harness.rows import each_row


def settings_of(**values: Any) -> Settings:
    return Settings(openapi={"shop": values})  # pyright: ignore[reportCallIssue] - a section of an integration


@asynccontextmanager
async def shop_apis(**values: Any) -> AsyncGenerator[tuple[ApiServers, Any]]:
    async with shop() as (address, app):
        settings = settings_of(**{"document": f"{address}/openapi.json", "key": KEY, **values})
        apis = ApiServers(settings, NoWorkers())
        yield apis, app
        await apis.aclose()


async def text_of(apis: ApiServers, tool: str, **arguments: Any) -> Any:
    answer = await apis.call("shop", tool, arguments, {"X-Key": "of the canvas"})
    return json.loads(answer.texts[0])


async def test_the_operations_of_a_real_app_are_tools_and_can_be_called() -> None:
    async with shop_apis() as (apis, app):
        tools = {tool.name: tool for tool in await apis.list_tools("shop")}
        assert {name: tool.effects for name, tool in tools.items()} == {
            "getOrder": "reads",
            "addOrder": "writes",
            "search_search_get": "reads",
            "login": "writes",
            "setNote": "writes",
            "logo": "reads",
            "flood": "reads",
        }
        assert tools["getOrder"].description == "Get Order\nReturn an order."
        assert tools["getOrder"].schema["required"] == ["number"]
        assert {*tools["addOrder"].schema["$defs"]} == {"Order", "Part"}  # type: ignore[arg-type]
        assert await text_of(apis, "getOrder", number="a b?c", with_parts=True) == {
            "number": "a b?c",
            "with_parts": True,
        }
        order: dict[str, Any] = {"customer": "Ada", "parts": [{"name": "wheel", "count": 2, "parts": []}], "note": None}
        assert await text_of(apis, "addOrder", body=order) == {"number": 1}
        assert app.state.orders == [order]
        found = await text_of(apis, "search_search_get", **{"words": ["a b", "c&d"], "x-team": "red", "basket": "1;2"})
        assert found == {"words": ["a b", "c&d"], "team": "red", "basket": "1%3B2"}
        assert await text_of(apis, "login", body={"user": "ä", "groups": ["x", "y"]}) == {
            "user": "ä",
            "groups": ["x", "y"],
        }
        assert await text_of(apis, "setNote", name="n", body="Hello") == "n: Hello"


async def test_errors_name_the_status_and_answers_have_limits() -> None:
    async with shop_apis() as (apis, _):
        with pytest.raises(ServiceError, match=r'status 404: \{"detail":"no such order"\}'):
            await apis.call("shop", "getOrder", {"number": "0"}, {})
        assert (await apis.call("shop", "logo", {}, {})).others == ("image/png",)
        with pytest.raises(ServiceError, match="1,048,576"):
            await apis.call("shop", "flood", {}, {})
        with pytest.raises(SettingsError, match="no operation 'drop'"):
            await apis.call("shop", "drop", {}, {})


async def test_a_wrong_key_is_not_repeated_to_the_model() -> None:
    async with shop_apis(key="secret-4711") as (apis, _):
        with pytest.raises(ServiceError, match="status 401") as caught:
            await apis.call("shop", "getOrder", {"number": "1"}, {})
    assert "secret-4711" not in str(caught.value)


@each_row(
    ("echo", "expected"),
    [
        ("user:password", "***"),
        ("dXNlcjpwYXNzd29yZA==", "***"),
        ("wrong: password", "wrong: ***"),
        ("header-secret, secret-of-a-variable", "***, ***"),
        ("2026-01-01 prod", "2026-01-01 prod"),
        ('{"next_page_token": "abcdefgh"}', '{"next_page_token": "abcdefgh"}'),
    ],
)
async def test_an_answer_that_repeats_keys_hides_them_and_nothing_else(
    echo: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_ID", "secret-of-a-variable")
    headers = {"X-Token": "header-secret", "X-Version": "2026-01-01", "X-Pin": "prod", "X-Shop": {"env": "SHOP_ID"}}
    async with shop_apis(key="user:password", headers=headers) as (apis, _):
        answer = await apis.call("shop", "setNote", {"name": "n", "body": echo}, {})
    assert json.loads(answer.texts[0]) == f"n: {expected}"


async def test_the_settings_limit_the_operations() -> None:
    async with shop_apis(allow=["logo"]) as (apis, _):
        assert [tool.name for tool in await apis.list_tools("shop")] == ["logo"]
        for use in (apis.find_tool("shop", "getOrder"), apis.call("shop", "getOrder", {}, {})):
            with pytest.raises(SettingsError, match="do not allow the operation 'getOrder'"):
                await use


async def test_an_agent_sees_the_schema_of_the_document_and_asks_before_it_writes() -> None:
    async with shop_apis() as (apis, app), open_store("memory://") as store:
        mcp: Any = [{"mcp_id": "shop", "tools": {"getOrder": {}, "addOrder": {"inputSchema": {"type": "object"}}}}]
        calls = (
            ("getOrder_0", {"number": 7}),
            ("addOrder_1", {"body": {"customer": "Ada"}}),
            ("getOrder_0", {"number": "7"}),
            ("addOrder_1", {"body": 7}),
        )
        turn = await play_agent(
            [tool_calls(*calls), Reply("Done.")],
            {"tools": [], "mcp": mcp},
            servers=cast("Any", apis),
            store=store,
            policies=ToolPolicies(ToolPermits(ask=("effects:writes",))),
        )
        assert "customer" in str(turn.model.requests[0][1].tools[1].parameters)
        (pause,) = await turn.runner.pauses("s")
        assert (turn.run.status, len(pause.inputs), app.state.orders) == ("waiting", 2, [])
        run = turn.runner.resume("s", {next(iter(pause.inputs)): "approve"})
        async for _ in run:
            pass
        results = [m["content"] for m in turn.model.requests[-1][1].messages if m["role"] == "tool"]
    assert len(app.state.orders) == 1
    assert results[0].startswith("Invalid arguments: ")
    assert results[1:3] == ['{"number":1}', '{"number":"7","with_parts":false}']
    assert results[3].startswith("Invalid arguments: ")  # nobody was asked about it


DOCUMENT: dict[str, Any] = {"openapi": "3.1.0", "paths": {"/x": {"get": {"operationId": "x"}}}}


async def test_a_document_decides_about_the_address_only_within_its_own_origin(tmp_path: Path) -> None:
    file = tmp_path / "api.json"

    async def call(document: dict[str, Any], **values: Any) -> str:
        file.write_text(json.dumps(document))
        apis = ApiServers(settings_of(**{"document": {"file": str(file)}, **values}), NoWorkers())
        with pytest.raises((ServiceError, SettingsError)) as caught:
            await apis.call("shop", "x", {}, {})
        await apis.aclose()
        return str(caught.value)

    assert "The address of the API 'shop' is unknown" in await call(DOCUMENT)
    private = {**DOCUMENT, "servers": [{"url": "http://127.0.0.1:9"}]}
    assert "127.0.0.1" in await call(private)
    async with shop() as (address, app):
        app.servers = [{"url": "https://attacker.example"}]
        apis = ApiServers(settings_of(document=f"{address}/openapi.json", key=KEY), NoWorkers())
        with pytest.raises(SettingsError, match=r"attacker\.example"):
            await apis.call("shop", "logo", {}, {})
        await apis.aclose()


@each_row(
    ("values", "reason"),
    [
        ({"url": "https://h:abc"}, "a port between 1 and 65535"),
        ({"url": "https://[h"}, "a port between 1 and 65535"),
        ({"url": "https://h/v1?k=secret-4711"}, "no query and no fragment"),
        ({"url": "https://h/#top"}, "no query and no fragment"),
        ({"url": "ftp://h"}, "begins with http:// or https://"),
        ({"document": "https://h:99999/x?y=secret-4711"}, "a port between 1 and 65535"),
    ],
)
def test_addresses_are_checked(values: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        settings_of(**{"document": "https://h:1/api.json?v=1", **values}).section(ApiSections)
    assert "secret-4711" not in str(caught.value)


async def test_apis_stand_beside_mcp_servers_and_the_doctor_lists_them() -> None:
    async with shop() as (address, _):
        section = {"document": f"{address}/openapi.json"}
        values: Any = {"openapi": {"shop": section}, "mcp": {"files": {"command": "false"}}}
        settings = Settings(**values, agents=AgentsSection(ask_tools=("mcp:shop/*",)))
        assert {*settings.tool_servers} == {"shop", "files"}
        async with open_services(settings) as services:
            servers = services.of(ToolServers)
            assert [tool.name for tool in await servers.list_tools("shop")][:2] == ["getOrder", "addOrder"]
            assert await servers.find_tool("files", "x") == ()
            with pytest.raises(SettingsError, match="There is no MCP server 'z'"):
                servers.check("z", "x")
        (result,) = await probe_apis(settings)
        assert (result.is_well, "getOrder, addOrder" in result.what) == (True, True)
        (broken,) = await probe_apis(settings_of(document=f"{address}/missing"))
        assert (broken.is_well, "status 404" in broken.advice) == (False, True)
