import json
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from ragflow_lg.tools.tavily_search import tavily_search
from tests.fakes.agents import TAVILY, play_agent, tool_calls
from tests.fakes.http_server import Route
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import Reply, ScriptedHttp, fake_services
from tests.fakes.tools import local_service, request_parts

ROWS = [{"title": "Laos", "url": "http://e/laos", "content": "short", "raw_content": "long", "score": 0.9}]
FOUND = HttpResponse(200, {}, json.dumps({"results": ROWS}), "")


async def search(params: dict[str, Any], answer: HttpResponse = FOUND, keys: Any = None) -> tuple[Result, ScriptedHttp]:
    http = ScriptedHttp({"http://t/search": answer})
    services = fake_services(http=http, tools=ToolSettings({"tavily": "http://t"}, keys or {}))
    return await run_component(tavily_search, params, services=services, globals={"sys.query": "Laos"}), http


async def test_the_request_on_the_wire() -> None:
    body = json.dumps({"results": ROWS})
    async with local_service(Route("/search", body=body), service="tavily", key="s3cret") as (server, services):
        params = {"query": "tea", "days": 3, "search_depth": "advanced", "exclude_domains": "b.test"}
        result = await run_component(tavily_search, params, services=services)
    assert (result.error, result.outputs["json"]) == (None, ROWS)
    assert request_parts(server.received[0]) == ("POST", "/search", {})
    assert server.received[0].header("Authorization") == "Bearer s3cret"
    assert json.loads(server.received[0].body) == {
        "query": "tea",
        "topic": "general",
        "search_depth": "advanced",
        "max_results": 6,
        "days": 3,
        "include_answer": False,
        "include_raw_content": False,
        "include_images": False,
        "include_image_descriptions": False,
        "include_domains": [],
        "exclude_domains": ["b.test"],
    }


async def test_the_canvas_sets_arguments_that_a_model_omits() -> None:
    tool = {**TAVILY, "params": {"api_key": "k", "topic": "news", "include_domains": ["a.test"]}}
    calls = tool_calls(*[("tavily_search_0", {"query": "x", "topic": topic}) for topic in (None, "general")])
    turn = await play_agent([calls, Reply("ok")], {"tools": [tool]}, answers={"http://t/search": FOUND})
    bodies: list[Any] = [request.json for request in turn.http.requests]
    assert [body["topic"] for body in bodies] == ["news", "general"]
    assert [body["include_domains"] for body in bodies] == [["a.test"], ["a.test"]]


async def test_results_are_returned_as_rows_and_as_text() -> None:
    result, http = await search({"api_key": "k", "topic": "news", "include_domains": ["a.test"]})
    assert result.outputs["json"] == ROWS
    assert result.outputs["formalized_content"].endswith("long")
    body: Any = http.requests[0].json
    assert (body["query"], body["topic"], body["include_domains"]) == ("Laos", "news", ["a.test"])
    assert http.requests[0].headers["Authorization"] == "Bearer k"


async def test_the_key_may_come_from_the_settings_which_an_error_names() -> None:
    _, http = await search({}, keys={"tavily": "secret"})
    assert http.requests[0].headers["Authorization"] == "Bearer secret"
    result, http = await search({})
    assert "set [tools.tavily] api_key_env in the settings" in str(result.error)
    assert http.requests == []


async def test_an_error_names_the_service() -> None:
    result, _ = await search({"api_key": "k"}, HttpResponse(401, {}, '{"detail": "bad key"}', ""))
    assert "Tavily answered 401" in str(result.error)


@pytest.mark.parametrize("params", [{"topic": "gossip"}, {"max_results": 0}, {"max_results": "6"}])
def test_invalid_parameters_are_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        bind(tavily_search, params)
