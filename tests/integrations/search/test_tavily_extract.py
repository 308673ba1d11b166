import json
from typing import Any

from ragflow_lg.integrations.search.tavily_extract import tavily_extract
from ragflow_lg.services.http import HttpResponse
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.run import Result
from tests.fakes.services import Reply, ScriptedHttp
from tests.fakes.tools import run_search
from tests.harness.rows import each_row

PAGES: list[dict[str, Any]] = [{"url": "http://e/1", "raw_content": "# Laos", "images": []}]
BODY = json.dumps({"results": PAGES, "failed_results": [{"url": "http://e/2", "error": "gone"}]})
TOOL = {"component_name": "TavilyExtract", "name": "Reader", "params": {"api_key": "k", "format": "text"}}


async def extract(params: dict[str, Any], body: str = BODY, key: str = "k") -> tuple[Result, ScriptedHttp]:
    answers = {"http://t/extract": HttpResponse(200, {}, body, "")}
    return await run_search(tavily_extract, params, answers, service="tavily", key=key)


@each_row(
    ("urls", "expected"),
    [
        ("http://e/1", ["http://e/1"]),
        (" http://e/1 ,, http://e/2", ["http://e/1", "http://e/2"]),
        ('["http://e/1", "http://e/2"]', ["http://e/1", "http://e/2"]),
        (["http://e/1"], ["http://e/1"]),
    ],
)
async def test_urls_are_accepted_in_several_forms(urls: Any, expected: list[str]) -> None:
    _, http = await extract({"urls": urls})
    assert isinstance(http.requests[0].json, dict)
    assert http.requests[0].json["urls"] == expected


@each_row("urls", [7, [1], [["http://e"]], '[{"a": 1}]', {"a": 1}])
async def test_invalid_urls_are_an_error(urls: Any) -> None:
    result, http = await extract({"urls": urls})
    assert "urls" in str(result.error)
    assert http.requests == []


async def test_a_model_gets_json_and_the_canvas_sets_arguments_that_it_omits() -> None:
    turn = await play_agent(
        [tool_calls(("tavily_extract_0", {"urls": ["http://e/1"], "extract_depth": "advanced"})), Reply("ok")],
        {"tools": [TOOL]},
        answers={"http://t/extract": HttpResponse(200, {}, BODY, "")},
    )
    assert json.loads(turn.tool_results[0]) == PAGES
    expected: Any = turn.http.requests[0].json
    assert (expected["extract_depth"], expected["format"]) == ("advanced", "text")
    schema = turn.model.requests[0][1].tools[0].parameters
    assert schema["required"] == ["urls"]
    assert schema["properties"]["urls"]["items"] == {"type": "string"}
