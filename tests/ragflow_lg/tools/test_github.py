import json
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.services.http import HttpResponse
from ragflow_lg.tools.github import github
from tests.fakes.http_server import Route
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import ScriptedHttp
from tests.fakes.tools import local_service, request_parts, run_search
from tests.harness.rows import each_row

ITEMS = [
    {"name": "graph", "html_url": "http://g/graph", "description": "Graphs.", "watchers": 7},
    {"name": "bare", "html_url": "http://g/bare", "description": None, "watchers": 0},
]
BODY = json.dumps({"total_count": 2, "items": ITEMS})


async def search(
    params: dict[str, Any], status: int = 200, body: str = BODY, **more: Any
) -> tuple[Result, ScriptedHttp]:
    answers = {"http://t/search/repositories": HttpResponse(status, {}, body, "")}
    return await run_search(github, params, answers, service="github", **more)


async def test_the_request_on_the_wire() -> None:
    async with local_service(Route("/search/repositories", body=BODY), service="github") as (server, services):
        params = {"query": "a&b=c #1 ü", "top_n": 3}
        result = await run_component(github, params, services=services)
    assert (result.error, result.outputs["json"]) == (None, ITEMS)
    query = {"q": "a&b=c #1 ü", "sort": "stars", "order": "desc", "per_page": "3"}
    assert request_parts(server.received[0]) == ("GET", "/search/repositories", query)
    assert server.received[0].header("X-GitHub-Api-Version") == "2022-11-28"
    assert server.received[0].header("Content-Type") == "application/vnd.github+json"
    assert server.received[0].header("Authorization") is None
    assert server.received[0].header("User-Agent")
    assert server.received[0].body == b""


async def test_results_have_description_and_stars() -> None:
    result, _ = await search({})
    text = result.outputs["formalized_content"]
    assert "├── Title: graph\n├── URL: http://g/graph\n└── Content:\nGraphs.\n stars:7" in text
    assert text.endswith("└── Content:\n\n stars:0")


async def test_a_key_from_the_settings_is_sent() -> None:
    _, http = await search({}, key="ghp_1")
    assert http.requests[0].headers["Authorization"] == "Bearer ghp_1"


@pytest.mark.parametrize("status", [200, 403, 422])
async def test_an_error_has_the_text_of_github(status: int) -> None:
    result, _ = await search({}, status, '{"message": "rate limit exceeded"}')
    assert result.error == "rate limit exceeded"


async def test_at_most_top_n_repositories_are_requested_and_returned() -> None:
    result, http = await search({"top_n": 1})
    assert result.outputs["json"] == ITEMS[:1]
    result, http = await search({"top_n": 5000})
    assert http.requests[0].query["per_page"] == "100"


async def test_nothing_found() -> None:
    result, _ = await search({}, body='{"items": []}')
    assert (result.error, result.outputs["formalized_content"], result.outputs["json"]) == (None, "", [])


@each_row("top_n", [0, -1, "5", 1.5, None])
def test_an_invalid_count_is_rejected(top_n: Any) -> None:
    with pytest.raises(ValidationError):
        bind(github, {"top_n": top_n})
