import json
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.services.http import HttpResponse
from ragflow_lg.tools.google import google
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.http_server import Route
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import Reply, ScriptedHttp
from tests.fakes.tools import local_service, request_parts, run_search

RESULTS = [
    {
        "title": "Laos",
        "link": "http://e/laos",
        "snippet": "short",
        "about_this_result": {"source": {"description": "A country."}},
    },
    {"title": "Mekong", "link": "http://e/mekong", "snippet": "A river.", "about_this_result": {"source": None}},
]
BODY = json.dumps({"search_metadata": {}, "organic_results": RESULTS})


async def search(
    params: dict[str, Any], status: int = 200, body: str = BODY, key: str = "s3", **more: Any
) -> tuple[Result, ScriptedHttp]:
    answers = {"http://t/search": HttpResponse(status, {}, body, "")}
    return await run_search(google, params, answers, service="serpapi", key=key, **more)


async def test_the_request_on_the_wire() -> None:
    async with local_service(Route("/search", body=BODY), service="serpapi", key="s3cret") as (server, services):
        params = {"q": "tea & rice", "country": "US", "language": "zh-CN", "start": 10, "num": 4}
        result = await run_component(google, params, services=services)
    assert (result.error, result.outputs["json"]) == (None, RESULTS)
    assert request_parts(server.received[0]) == (
        "GET",
        "/search",
        {
            "api_key": "s3cret",
            "engine": "google",
            "q": "tea & rice",
            "google_domain": "google.com",
            "gl": "us",
            "hl": "zh-CN",
            "start": "10",
            "num": "4",
        },
    )
    assert server.received[0].body == b""


async def test_the_description_of_the_source_is_preferred_to_the_snippet() -> None:
    result, http = await search({})
    text = result.outputs["formalized_content"]
    assert "A country." in text
    assert "short" not in text
    assert text.endswith("A river.")
    assert (http.requests[0].query["q"], http.requests[0].query["num"]) == ("Laos", "6")


async def test_start_and_num_may_be_references() -> None:
    params = {"q": "x", "start": "{env.from}", "num": "env.count"}
    cases: tuple[tuple[dict[str, Any], tuple[str, str]], ...] = (
        ({"env.from": 5, "env.count": "7"}, ("5", "7")),
        ({"env.from": "", "env.count": ""}, ("0", "6")),
    )
    for values, expected in cases:
        _, http = await search(params, **values)
        assert (http.requests[0].query["start"], http.requests[0].query["num"]) == expected


async def test_the_canvas_sets_arguments_that_a_model_omits() -> None:
    tool = {"component_name": "Google", "name": "G", "params": {"api_key": "k", "num": 3, "start": 2}}
    calls = [
        tool_calls(("google_search_0", {"q": "x", "num": 9})),
        tool_calls(("google_search_0", {"q": "x"})),
        Reply("ok"),
    ]
    answers = {"https://serpapi.com/search": HttpResponse(200, {}, BODY, "")}
    turn = await play_agent(calls, {"tools": [tool]}, answers=answers)
    assert [(r.query["num"], r.query["start"]) for r in turn.http.requests] == [("9", "2"), ("3", "2")]
    assert turn.model.requests[0][1].tools[0].parameters["required"] == ["q"]


async def test_a_blank_query_needs_neither_a_request_nor_a_key() -> None:
    result, http = await search({"q": " "}, key="")
    assert (result.error, result.outputs["formalized_content"], http.requests) == (None, "", [])


@pytest.mark.parametrize("status", [200, 401])
async def test_an_error_has_the_text_of_serpapi_without_the_key(status: int) -> None:
    result, _ = await search({"api_key": "s/3"}, status, '{"error": "Invalid API key s/3 (s%2F3)."}')
    assert result.error == "Invalid API key *** (***)."


async def test_a_missing_key_is_reported_with_its_setting() -> None:
    result, http = await search({}, key="")
    assert "Google has no API key" in str(result.error)
    assert "[tools.serpapi] api_key" in str(result.error)
    assert http.requests == []


@pytest.mark.parametrize("params", [{"num": 0}, {"num": "many"}, {"start": -1}, {"num": [1]}])
async def test_an_invalid_start_or_num_is_an_error(params: dict[str, Any]) -> None:
    result, http = await search(params)
    assert str(result.error).startswith(next(iter(params)))
    assert http.requests == []


@pytest.mark.parametrize("params", [{"country": "usa"}, {"country": ""}, {"language": "english!"}, {"language": None}])
def test_an_invalid_country_or_language_is_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        bind(google, params)
