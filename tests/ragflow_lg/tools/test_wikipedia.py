import json
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from ragflow_lg.tools.wikipedia import wikipedia
from tests.fakes.agents import page
from tests.fakes.http_server import Route
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import ScriptedHttp, fake_services
from tests.fakes.tools import local_service, request_parts


async def search(params: dict[str, Any], answer: HttpResponse) -> tuple[Result, ScriptedHttp]:
    http = ScriptedHttp({"http://de.wiki.test": answer})
    services = fake_services(http=http, tools=ToolSettings({"wikipedia": "http://{lang}.wiki.test"}))
    result = await run_component(
        wikipedia, {"language": "de", **params}, services=services, globals={"sys.query": "Laos"}
    )
    return result, http


async def test_the_request_on_the_wire() -> None:
    body = page("Laos", "A land.").text
    async with local_service(Route("", body=body), Route("/", body=body), service="wikipedia") as (server, services):
        result = await run_component(wikipedia, {"query": "a b", "top_n": 3}, services=services)
    assert (result.error, result.outputs["json"][0]["title"]) == (None, "Laos")
    assert request_parts(server.received[0]) == (
        "GET",
        "/",
        {
            "action": "query",
            "generator": "search",
            "format": "json",
            "gsrlimit": "3",
            "gsrsearch": "a b",
            "prop": "extracts|info",
            "exintro": "1",
            "explaintext": "1",
            "exlimit": "max",
            "inprop": "url",
        },
    )


async def test_at_most_top_n_pages_are_returned_in_the_order_of_the_search() -> None:
    pages = {str(n): {"index": n, "title": f"T{n}", "extract": "x" * n} for n in (3, 1, 2)}
    pages["4"] = {"index": "4th", "title": "T4", "extract": "y"}
    answer = HttpResponse(200, {}, json.dumps({"query": {"pages": pages}}), "")
    result, _ = await search({}, answer)
    assert [row["title"] for row in result.outputs["json"]] == ["T4", "T1", "T2", "T3"]
    result, _ = await search({"top_n": 2}, answer)
    assert [row["title"] for row in result.outputs["json"]] == ["T4", "T1"]


@pytest.mark.parametrize(("text", "expected"), [("{}", []), ('{"batchcomplete": ""}', []), ('{"query": {}}', [])])
async def test_nothing_found(text: str, expected: list[Any]) -> None:
    result, _ = await search({}, HttpResponse(200, {}, text, ""))
    assert (result.error, result.outputs["formalized_content"], result.outputs["json"]) == (None, "", expected)


async def test_an_error_with_status_200_is_an_error() -> None:
    text = '{"error": {"code": "x", "info": "The search is too long."}}'
    result, _ = await search({}, HttpResponse(200, {}, text, ""))
    assert result.error == "Wikipedia rejected the search: The search is too long."


async def test_the_query_defaults_to_that_of_the_turn() -> None:
    result, http = await search({}, page("Laos", "Ein Land."))
    assert result.outputs["formalized_content"].endswith("Ein Land.")
    assert result.outputs["json"][0]["title"] == "Laos"
    assert (http.requests[0].query["gsrsearch"], http.requests[0].query["gsrlimit"]) == ("Laos", "10")


async def test_without_a_query_no_request_is_sent() -> None:
    result, http = await search({"query": ""}, page("Laos", "x"))
    assert (result.outputs["formalized_content"], http.requests) == ("", [])


async def test_an_error_status_is_an_error() -> None:
    result, _ = await search({}, HttpResponse(503, {}, "<html>busy</html>", ""))
    assert "Wikipedia answered 503" in str(result.error)


@pytest.mark.parametrize("params", [{"language": "../x"}, {"top_n": 0}, {"top_n": "5"}])
def test_an_invalid_edition_or_count_is_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        bind(wikipedia, params)
