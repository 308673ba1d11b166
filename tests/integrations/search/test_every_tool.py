"""Properties of every tool that uses a service, for any answer of the service."""

import json
import logging
import random
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.tool import SearchOutputs
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from tests.architecture.sources import ROOT
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.http_server import Route
from tests.fakes.run import Result, run_component
from tests.fakes.services import Reply, fake_services
from tests.fakes.tools import local_service
from tests.harness.rows import each_row
from tests.integrations.search.cases import (
    CONTRACTS,
    KEY,
    TOOLS,
    Contract,
    Tool,
    rules_of,
    run_tool,
    service_of,
    spec_of,
)

every_tool = each_row("tool", TOOLS)
every_contract = each_row("contract", CONTRACTS)

HOSTILE: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "text", "x" * 100_000, [], {}),
    *([None], [1], ["x"], [[]], [{}], [{}] * 1000, {"a": {}}, {"1": None}, {"1": "x"}, {"1": {}}),
]
ODD_VALUES: list[Any] = [
    *(None, True, 10**30, float("nan"), float("inf"), "NaN", "\ud800", "x" * 100_000, [], ["x"]),
    *({}, {"source": 1}, {"source": {"description": {}}}, [[[]]], {"a": [1, {"b": None}]}, "[" * 5000, '{"a":' * 5000),
]
DAMAGE = ['"', "{", "]", "<", ">", "&#9;", "\x00", "1e999", ""]


class AnyAnswer:
    """An HTTP client with one answer for every request except those in ``Tool.first_pages``."""

    def __init__(self, answer: HttpResponse | Exception, tool: Tool) -> None:
        self.answer = answer
        self.tool = tool
        self.requests: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        first = self.tool.first_pages.get(request.url.removeprefix("http://t"))
        if first is not None:
            return HttpResponse(200, {}, first, request.url)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def run(
    tool: Tool, answer: HttpResponse | Exception | str, key: str = KEY, **params: Any
) -> tuple[Result, AnyAnswer]:
    http = AnyAnswer(HttpResponse(200, {}, answer, "") if isinstance(answer, str) else answer, tool)
    services = fake_services(
        http=http, tools=ToolSettings({tool.service: "http://t"}, {tool.service: key} if key else {})
    )
    return await run_component(tool.spec, {**tool.params, "delay_after_error": 0, **params}, services=services), http


def no_crash(result: Result, caplog: pytest.LogCaptureFixture) -> None:
    """Assert that no unexpected exception was raised and no key revealed."""
    crashes = [record for record in caplog.records if record.exc_info]
    assert not crashes, result.error
    assert KEY not in str(result.error)
    assert json.dumps(result.outputs, allow_nan=False)


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.engine.node_attempts")


def test_every_tool_with_a_service_is_tested_and_on_the_page_about_tools() -> None:
    names = {tool.name for tool in TOOLS}
    assert {spec.name for spec in load_catalog() if spec.tool and spec.tool.service} | {"Crawler"} == names
    rows = (ROOT / "docs/tools.md").read_text("utf-8").splitlines()
    for name in names:
        rules = rules_of(name)
        (row,) = [line for line in rows if line.startswith(f"| {name} |") and f"`{rules.needs}`" in line]
        if rules.service is not None:
            assert f"`{rules.service.section}`" in row
            assert ("key needed" in row) == (rules.service.key == "required")
        costs = [line for line in rows if line.count("|") == 4 and name in line.split("|")[1].replace(",", " ").split()]
        assert len(costs) == 1


@every_tool
async def test_a_search_returns_results_and_nothing_is_sent_without_a_question(tool: Tool) -> None:
    result, http = await run(tool, tool.body)
    assert result.error is None
    assert result.outputs[tool.output]
    assert tool.output != "json" or tool.name.startswith("Querit") or len(result.outputs["json"]) == 1
    assert "formalized_content" not in result.outputs or result.outputs["formalized_content"].strip()
    assert all(request.url.startswith("http://t/") or request.url == "http://t" for request in http.requests)
    result, http = await run(tool, tool.body, **{rules_of(tool.name).needs: ""})
    assert (result.error, http.requests) == (None, [])
    assert not result.outputs.get("formalized_content")


@every_tool
async def test_an_error_status_names_the_service(tool: Tool) -> None:
    for status in (301, 400, 401, 403, 404, 429, 500, 503):
        result, _ = await run(tool, HttpResponse(status, {}, f"<p>no {tool.key}</p>", ""))
        assert f" answered {status}: <p>no " in str(result.error)
        assert KEY not in str(result.error)


@every_tool
async def test_hostile_answers_cause_no_crash(tool: Tool, caplog: pytest.LogCaptureFixture) -> None:
    for text in ("", "null", "[]", "1", '"x"', "{", "[" * 100_000, "\x00", "9" * 5000, "NaN", "<a>"):
        result, _ = await run(tool, text)
        assert tool.reads_any_text or " answered " in str(result.error)
        no_crash(result, caplog)
    draw = random.Random(7)
    for _ in range(25):
        damaged = list(tool.body)
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(damaged))
            damaged[place : place + draw.randint(0, 9)] = draw.choice(DAMAGE)
        no_crash((await run(tool, "".join(damaged)))[0], caplog)


@each_row("tool", [tool for tool in TOOLS if tool.of_rows])
async def test_hostile_results_cause_no_crash(tool: Tool, caplog: pytest.LogCaptureFixture) -> None:
    for rows in HOSTILE:
        result, _ = await run(tool, tool.answer(rows))
        no_crash(result, caplog)
        assert result.error is None or " answered " in result.error
    for value in () if tool.name == "TuShare" else ODD_VALUES:  # its rows are lists
        result, _ = await run(tool, tool.answer([{**tool.row, name: value} for name in tool.row]))
        no_crash(result, caplog)
        assert result.error is None
    deep = '{"title":' * 200 + "1" + "}" * 200
    result, _ = await run(tool, tool.answer(["@"]).replace('"@"', deep))
    no_crash(result, caplog)
    assert (result.error is None) == (tool.path == "/news.js") or "nested" in str(result.error)


@every_tool
async def test_errors_are_retried_as_often_as_the_canvas_allows(tool: Tool) -> None:
    result, http = await run(tool, ServiceError("'t' did not answer within 12 s.", is_retryable=True), max_retries=2)
    assert result.error == "'t' did not answer within 12 s."
    assert len([r for r in http.requests if r.url.rstrip("/").endswith(tool.path.rstrip("/"))]) >= 3
    result, http = await run(tool, tool.body, max_retries=2)
    assert (result.error, len(http.requests)) == (None, 1 + len(tool.first_pages))


@every_tool
async def test_a_missing_key_is_reported_with_its_setting(tool: Tool) -> None:
    result, http = await run(tool, tool.body, key="", max_retries=3)
    if not tool.needs_key:
        assert result.error is None
        return
    assert f"set [tools.{tool.service}] api_key in the settings" in str(result.error)
    assert http.requests == []


@every_tool
async def test_a_local_service_is_reached_only_if_the_settings_allow_it(tool: Tool) -> None:
    routes = [Route(path, body=body) for path, body in {**tool.first_pages, tool.path: tool.body}.items()]
    # Neither a canvas nor a model can choose the address of a service: these parameters are ignored.
    elsewhere = dict.fromkeys(("endpoint", "base_url", "api_base", "url"), "http://127.0.0.1:9/")
    for is_allowed in (False, True):
        async with local_service(*routes, service=tool.service, key=KEY, is_allowed=is_allowed) as (server, services):
            params = {**elsewhere, **tool.params_at(f"127.0.0.1:{server.port}")}
            result = await run_component(tool.spec, params, services=services)
        assert (result.error is None, len(server.received)) == ((True, len(routes)) if is_allowed else (False, 0))
        assert is_allowed or "[http] allow" in str(result.error)


# With stubs of the services


@every_contract
async def test_an_agent_uses_the_tool(contract: Contract) -> None:
    async with service_of(contract, contract.stub()) as (host, services):
        calls = tool_calls((f"{rules_of(contract.name).function}_0", contract.arguments(host)))
        tools: list[Any] = [{"component_name": contract.name, "name": "Tool", "params": {}}]
        turn = await play_agent(
            [calls, Reply("It is so.")], {"tools": tools}, http=services.http, tool_settings=services.tools
        )
    assert turn.run.status == "succeeded"
    assert contract.says in turn.tool_results[0]
    assert ("references" in turn.state["turn"]) == (spec_of(contract.name).outputs is SearchOutputs)
    assert not contract.key or contract.key not in json.dumps(turn.state, default=str)


async def call(contract: Contract, query: str = "", stub: Any = None, **more: Any) -> Result:
    return await run_tool(contract.name, stub, **contract.arguments("{host}", query), **more)


@each_row("contract", [contract for contract in CONTRACTS if contract.nothing])
async def test_nothing_found_is_no_error(contract: Contract) -> None:
    result = await call(contract, contract.nothing)
    assert result.error is None
    assert contract.says not in contract.text_of(result)


@each_row("contract", [contract for contract in CONTRACTS if contract.key])
async def test_the_key_of_the_canvas_is_used_first_and_a_wrong_one_is_not_shown(contract: Contract) -> None:
    service = rules_of(contract.name).service
    assert service is not None
    assert (await call(contract, key="wr0ng-s3cret", **{service.key_param: contract.key})).error is None
    result = await call(contract, key="wr0ng-s3cret")
    assert result.error
    assert "wr0ng-s3cret" not in result.error


@every_contract
async def test_a_rate_limit_is_an_error_with_the_pause(contract: Contract) -> None:
    stub = contract.stub()
    stub.fault = "busy"
    result = await call(contract, stub=stub)
    assert result.error
    assert ("It asks clients to wait 1 s." in result.error) == bool(stub.busy.headers)
