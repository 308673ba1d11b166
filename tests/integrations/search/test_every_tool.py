"""Properties of every tool that uses a service, for any answer of the service."""

import json
import logging
import random
from typing import Any, cast

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from tests.architecture.sources import ROOT
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.http_server import Route
from tests.fakes.run import Result, run_component
from tests.fakes.services import Reply, fake_services
from tests.fakes.tools import local_service
from tests.harness.rows import each_row
from tests.integrations.search.cases import KEY, TOOLS, Tool

every_tool = each_row("tool", TOOLS)


class AnyAnswer:
    """An HTTP client with one answer for every request except those in ``Tool.other``."""

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


async def run(tool: Tool, answer: HttpResponse | Exception | str, **params: Any) -> tuple[Result, AnyAnswer]:
    if isinstance(answer, str):
        answer = HttpResponse(200, {}, answer, "")
    http = AnyAnswer(answer, tool)
    settings = ToolSettings({tool.service: "http://t"}, {tool.service: KEY})
    services = fake_services(http=http, tools=settings)
    params = {**tool.params, "delay_after_error": 0, **params}
    return await run_component(tool.spec, params, services=services), http


HOSTILE: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "text", "x" * 100_000, [], {}),
    *([None], [1], ["x"], [[]], [{}], [{}] * 5000, {"a": {}}, {"1": None}, {"1": "x"}, {"1": {}}),
]

ODD_VALUES: list[Any] = [
    *(None, True, 10**30, float("nan"), float("inf"), "NaN", "\ud800", "x" * 300_000, [], ["x"]),
    *({}, {"source": 1}, {"source": {"description": {}}}, [[[]]], {"a": [1, {"b": None}]}, "[" * 5000, '{"a":' * 5000),
]


DAMAGE = ['"', "{", "]", "<", ">", "&#9;", "\x00", "1e999", ""]


def no_crash(result: Result, caplog: pytest.LogCaptureFixture) -> None:
    """Assert that no unexpected exception was raised and no key revealed."""
    crashes = [record for record in caplog.records if record.exc_info]
    assert not crashes, result.error
    assert KEY not in str(result.error)
    assert json.dumps(result.outputs, allow_nan=False)


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.engine.node_attempts")


def test_every_tool_with_a_service_is_tested_here() -> None:
    with_service = {spec.name for spec in load_catalog() if spec.tool is not None and spec.tool.service is not None}
    assert with_service | {"Crawler"} == {tool.name for tool in TOOLS}


def test_the_page_about_tools_has_each_with_its_settings() -> None:
    rows = (ROOT / "docs/tools.md").read_text("utf-8").splitlines()
    for spec in {tool.name: tool.spec for tool in TOOLS}.values():
        (row,) = [line for line in rows if line.startswith(f"| {spec.name} |") and f"`{_needed(spec)}`" in line]
        service = spec.tool and spec.tool.service
        assert service is None or f"`{service.section}`" in row
        assert service is None or ("key needed" in row) == (service.key == "required")
        costs = [
            line for line in rows if line.count("|") == 4 and spec.name in line.split("|")[1].replace(",", " ").split()
        ]
        assert len(costs) == 1


def _needed(spec: AnySpec) -> str:
    assert spec.tool is not None
    return spec.tool.needs


@every_tool
async def test_a_search_returns_results(tool: Tool) -> None:
    result, http = await run(tool, tool.body)
    assert result.error is None
    assert result.outputs[tool.output]
    assert tool.output != "json" or tool.name.startswith("Querit") or len(result.outputs["json"]) == 1
    assert "formalized_content" not in result.outputs or result.outputs["formalized_content"].strip()
    assert all(request.url.startswith("http://t/") or request.url == "http://t" for request in http.requests)


@every_tool
async def test_without_its_required_argument_no_request_is_sent(tool: Tool) -> None:
    result, http = await run(tool, tool.body, **{tool.needs: ""})
    assert (result.error, http.requests) == (None, [])
    assert not result.outputs.get("formalized_content")


@every_tool
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 429, 500, 503])
async def test_an_error_status_names_the_service(tool: Tool, status: int) -> None:
    result, _ = await run(tool, HttpResponse(status, {}, f"<p>no {tool.key}</p>", ""))
    assert f" answered {status}: <p>no " in str(result.error)
    assert KEY not in str(result.error)


@every_tool
async def test_an_unreachable_service_is_an_error(tool: Tool) -> None:
    result, _ = await run(tool, ServiceError("'t' did not answer within 12 s.", is_retryable=True))
    assert result.error == "'t' did not answer within 12 s."


@every_tool
@pytest.mark.parametrize("text", ["", "null", "[]", "1", '"x"', "{", "[" * 100_000, "\x00", "9" * 5000, "NaN", "<a>"])
async def test_an_invalid_answer_is_an_error(tool: Tool, text: str, caplog: pytest.LogCaptureFixture) -> None:
    result, _ = await run(tool, text)
    assert tool.reads_any_text or " answered " in str(result.error)
    no_crash(result, caplog)


@every_tool
async def test_hostile_lists_cause_no_crash(tool: Tool, caplog: pytest.LogCaptureFixture) -> None:
    for rows in HOSTILE if tool.of_rows else ():
        result, _ = await run(tool, tool.answer(rows))
        no_crash(result, caplog)
        assert result.error is None or " answered " in result.error


@every_tool
async def test_hostile_fields_cause_no_crash(tool: Tool, caplog: pytest.LogCaptureFixture) -> None:
    row: dict[str, Any] = (
        {} if tool.of_rows is None else _first_row(json.loads(tool.body.removeprefix("ragflow_lg(").removesuffix(")")))
    )
    for name in row:
        for value in ODD_VALUES:
            result, _ = await run(tool, tool.answer([{**row, name: value}]))
            no_crash(result, caplog)
            assert result.error is None


def _first_row(answer: Any) -> dict[str, Any]:
    """Return the first map with a title or a name, or ``{}`` if rows are lists."""
    row: Any = answer
    while isinstance(row, list | dict):
        if isinstance(row, dict) and ("title" in row or "name" in row):
            return cast("dict[str, Any]", row)
        row = next(iter(cast("list[Any]", row) if isinstance(row, list) else cast("dict[str, Any]", row).values()))
    return {}


@every_tool
async def test_damaged_answers_cause_no_crash(tool: Tool, caplog: pytest.LogCaptureFixture) -> None:
    draw = random.Random(7)
    for _ in range(60):
        text = list(tool.body)
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(text))
            text[place : place + draw.randint(0, 9)] = draw.choice(DAMAGE)
        result, _ = await run(tool, "".join(text))
        no_crash(result, caplog)


@every_tool
async def test_deep_nesting_is_an_error(tool: Tool, caplog: pytest.LogCaptureFixture) -> None:
    if tool.of_rows is None:
        return
    deep = '{"title":' * 200 + "1" + "}" * 200
    result, _ = await run(tool, tool.answer(["@"]).replace('"@"', deep))
    no_crash(result, caplog)
    assert (result.error is None) == (tool.path == "/news.js") or "nested" in str(result.error)


@every_tool
async def test_errors_are_retried_as_often_as_the_canvas_allows(tool: Tool) -> None:
    _, http = await run(tool, ServiceError("down"), max_retries=2)
    assert len([r for r in http.requests if r.url.rstrip("/").endswith(tool.path.rstrip("/"))]) >= 3
    result, http = await run(tool, tool.body, max_retries=2)
    assert (result.error, len(http.requests)) == (None, 1 + len(tool.first_pages))


@every_tool
async def test_a_missing_key_is_reported_with_its_setting(tool: Tool) -> None:
    http = AnyAnswer(HttpResponse(200, {}, tool.body, ""), tool)
    services = fake_services(http=http, tools=ToolSettings({tool.service: "http://t"}))
    result = await run_component(tool.spec, {**tool.params, "max_retries": 3}, services=services)
    if not tool.needs_key:
        assert result.error is None
        return
    assert f"set [tools.{tool.service}] api_key in the settings" in str(result.error)
    assert http.requests == []


@every_tool
async def test_a_local_service_is_reached_only_if_the_settings_allow_it(tool: Tool) -> None:
    routes = [Route(path, body=body) for path, body in {**tool.first_pages, tool.path: tool.body}.items()]
    async with local_service(*routes, service=tool.service, key=KEY, is_allowed=False) as (server, services):
        result = await run_component(tool.spec, tool.params_at(f"127.0.0.1:{server.port}"), services=services)
        assert "[http] allow" in str(result.error)
        assert server.received == []
    async with local_service(*routes, service=tool.service, key=KEY) as (server, services):
        # Neither a canvas nor a model can choose the address of a service: these parameters are ignored.
        elsewhere = dict.fromkeys(("endpoint", "base_url", "api_base", "url"), "http://127.0.0.1:9/")
        result = await run_component(
            tool.spec, {**elsewhere, **tool.params_at(f"127.0.0.1:{server.port}")}, services=services
        )
        assert result.error is None
        assert len(server.received) == len(routes)


@every_tool
async def test_a_failing_server_is_asked_again(tool: Tool) -> None:
    broken = Route(tool.path, status=503, body=f"busy {tool.key}")
    others = [Route(path, body=body) for path, body in tool.first_pages.items()]
    async with local_service(broken, *others, service=tool.service, key=KEY) as (server, services):
        params = {**tool.params_at(f"127.0.0.1:{server.port}"), "max_retries": 1, "delay_after_error": 0}
        result = await run_component(tool.spec, params, services=services)
    assert f" answered 503: busy {'key' if tool.key == 'key' else '***'}" in str(result.error)
    assert len([r for r in server.received if r.path.partition("?")[0] == tool.path]) == 2


@every_tool
async def test_the_result_of_a_failed_call_names_the_service(tool: Tool) -> None:
    entry = {"component_name": tool.name, "name": "T", "params": {"api_key": KEY, **tool.params}}
    assert tool.spec.tool is not None
    calls = tool_calls((f"{tool.spec.tool.function}_0", tool.params))
    turn = await play_agent(
        [calls, Reply("ok")], {"tools": [entry]}, answers={"http://wiki.test": ServiceError("down")}
    )
    assert turn.run.status == "succeeded"
    assert turn.tool_results[0].startswith(f"{tool.spec.tool.label} error: ")
    assert KEY not in turn.tool_results[0]
