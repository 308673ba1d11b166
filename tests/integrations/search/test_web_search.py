import json
import re
from typing import Any

from ragflow_lg.integrations.search.web_search import wikipedia
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.agents import TAVILY, page, play_agent, tool_calls
from tests.fakes.run import Result, run_component
from tests.fakes.services import Reply, ScriptedHttp, fake_services
from tests.fakes.tools import run_search
from tests.harness.rows import each_row
from tests.integrations.search.cases import spec_of

COUNTRY = {"source": {"description": "A country."}}
ROWS: dict[str, list[dict[str, Any]]] = {
    "TavilySearch": [{"title": "Laos", "url": "http://e/laos", "content": "short", "raw_content": "long", "score": 1}],
    "Google": [
        {"title": "Laos", "link": "http://e/laos", "snippet": "short", "about_this_result": COUNTRY},
        {"title": "Mekong", "link": "http://e/mekong", "snippet": "A river.", "about_this_result": {"source": None}},
    ],
    "GitHub": [
        {"name": "graph", "html_url": "http://g/graph", "description": "Graphs.", "watchers": 7},
        {"name": "bare", "html_url": "http://g/bare", "description": None, "watchers": 0},
    ],
}
FIELDS = {"TavilySearch": "results", "Google": "organic_results", "GitHub": "items"}
PLACES = {
    "TavilySearch": ("tavily", "http://t/search"),
    "Google": ("serpapi", "http://t/search"),
    "GitHub": ("github", "http://t/search/repositories"),
}


async def run(name: str, params: dict[str, Any], key: str = "s3cret", **more: Any) -> tuple[Result, ScriptedHttp]:
    """Run a tool over an answer with its rows."""
    service, url = PLACES[name]
    body = more.pop("body", json.dumps({FIELDS[name]: ROWS[name]}))
    answers = {url: HttpResponse(more.pop("status", 200), {}, body, "")}
    return await run_search(spec_of(name), params, answers, service=service, key=key, **more)


NO_IMAGES = dict.fromkeys(
    ["include_answer", "include_raw_content", "include_images", "include_image_descriptions"], False
)
REQUESTS: list[tuple[str, dict[str, Any], Any, dict[str, str], str]] = [
    (
        "TavilySearch",
        {"query": "tea", "days": 3, "search_depth": "advanced", "exclude_domains": "b.test"},
        {"query": "tea", "topic": "general", "search_depth": "advanced", "max_results": 6, "days": 3, **NO_IMAGES}
        | {"include_domains": [], "exclude_domains": ["b.test"]},
        {"Authorization": "Bearer s3cret"},
        "long",
    ),
    (
        "Google",
        {"q": "tea & rice", "country": "US", "language": "zh-CN", "start": 10, "num": 4},
        {"api_key": "s3cret", "engine": "google", "q": "tea & rice", "google_domain": "google.com"}
        | {"gl": "us", "hl": "zh-CN", "start": "10", "num": "4"},
        {},
        "A country.\n\nID: 1\n├── Title: Mekong\n├── URL: http://e/mekong\n└── Content:\nA river.",
    ),
    (
        "GitHub",
        {"query": "a&b=c #1 ü", "top_n": 3},
        {"q": "a&b=c #1 ü", "sort": "stars", "order": "desc", "per_page": "3"},
        {
            "Authorization": "Bearer s3cret",
            "X-GitHub-Api-Version": "2022-11-28",
            "Content-Type": "application/vnd.github+json",
        },
        "Graphs.\n stars:7\n\nID: 1\n├── Title: bare\n├── URL: http://g/bare\n└── Content:\n\n stars:0",
    ),
]


@each_row(("name", "params", "sent", "headers", "says"), REQUESTS)
async def test_the_request_and_the_result(name: str, params: Any, sent: Any, headers: Any, says: str) -> None:
    result, http = await run(name, params)
    (request,) = http.requests
    assert (result.error, result.outputs["json"]) == (None, ROWS[name])
    assert re.sub(r"ID: \d+", "ID: 1", result.outputs["formalized_content"]).endswith(says)
    assert (request.json or request.query, dict(request.headers)) == (sent, headers)


@each_row(
    ("name", "params", "asked", "sent"),
    [
        ("GitHub", {"top_n": 1}, "per_page", "1"),
        ("GitHub", {"top_n": 5000}, "per_page", "100"),
        ("Google", {"num": 1}, "num", "1"),
        ("Google", {"num": 5000}, "num", "100"),
    ],
)
async def test_the_number_of_results_is_limited(name: str, params: dict[str, Any], asked: str, sent: str) -> None:
    result, http = await run(name, params)
    assert http.requests[0].query[asked] == sent
    assert result.outputs["json"] == ROWS[name][: int(sent)]


@each_row(("name", "field"), [("Google", "error"), ("GitHub", "message")])
async def test_an_error_has_the_text_of_the_service_without_the_key(name: str, field: str) -> None:
    body = json.dumps({field: "Invalid API key s/3 (s%2F3)."})
    for status in (200, 401, 422):
        result, _ = await run(name, {}, key="s/3", status=status, body=body)
        assert result.error == "Invalid API key *** (***)."


async def test_the_canvas_sets_arguments_that_a_model_omits() -> None:
    tavily = {**TAVILY, "params": {"api_key": "k", "topic": "news", "include_domains": ["a.test"]}}
    serpapi = {"component_name": "Google", "name": "G", "params": {"api_key": "k", "num": 3, "start": 2}}
    calls = tool_calls(
        ("tavily_search_0", {"query": "x", "topic": None}),
        ("tavily_search_0", {"query": "x", "topic": "general"}),
        ("google_search_1", {"q": "x", "num": 9}),
        ("google_search_1", {"q": "x"}),
    )
    answers = {
        "http://t/search": HttpResponse(200, {}, json.dumps({"results": ROWS["TavilySearch"]}), ""),
        "https://serpapi.com/search": HttpResponse(200, {}, json.dumps({"organic_results": ROWS["Google"]}), ""),
    }
    turn = await play_agent([calls, Reply("ok")], {"tools": [tavily, serpapi]}, answers=answers)
    bodies: list[Any] = [request.json for request in turn.http.requests if request.json]
    assert [(body["topic"], body["include_domains"]) for body in bodies] == [
        ("news", ["a.test"]),
        ("general", ["a.test"]),
    ]
    queries = [request.query for request in turn.http.requests if request.query]
    assert [(query["num"], query["start"]) for query in queries] == [("9", "2"), ("3", "2")]


async def test_start_and_num_of_google_may_be_references() -> None:
    params = {"q": "x", "start": "{env.from}", "num": "env.count"}
    for values, expected in (((5, "7"), ("5", "7")), (("", ""), ("0", "6"))):
        _, http = await run("Google", params, **dict(zip(("env.from", "env.count"), values, strict=True)))
        assert (http.requests[0].query["start"], http.requests[0].query["num"]) == expected
    for wrong in ({"num": 0}, {"num": "many"}, {"start": -1}):
        result, http = await run("Google", wrong)
        assert str(result.error).startswith(next(iter(wrong)))
        assert http.requests == []


# Wikipedia


async def search_wikipedia(params: dict[str, Any], answer: HttpResponse) -> tuple[Result, ScriptedHttp]:
    http = ScriptedHttp({"http://de.wiki.test": answer})
    services = fake_services(http=http, tools=ToolSettings({"wikipedia": "http://{lang}.wiki.test"}))
    params = {"language": "de", **params}
    return await run_component(wikipedia, params, services=services, globals={"sys.query": "Laos"}), http


async def test_wikipedia_searches_and_reads_introductions() -> None:
    result, http = await search_wikipedia({"top_n": 3}, page("Laos", "Ein Land."))
    assert result.outputs["formalized_content"].endswith("Ein Land.")
    assert http.requests[0].query == {
        **{"action": "query", "generator": "search", "format": "json", "gsrlimit": "3", "gsrsearch": "Laos"},
        **{"prop": "extracts|info", "exintro": "1", "explaintext": "1", "exlimit": "max", "inprop": "url"},
    }


async def test_at_most_top_n_pages_are_returned_in_the_order_of_the_search() -> None:
    pages = {str(n): {"index": n, "title": f"T{n}", "extract": "x" * n} for n in (3, 1, 2)}
    pages["4"] = {"index": "4th", "title": "T4", "extract": "y"}
    answer = HttpResponse(200, {}, json.dumps({"query": {"pages": pages}}), "")
    for top_n, titles in ((10, ["T4", "T1", "T2", "T3"]), (2, ["T4", "T1"])):
        result, _ = await search_wikipedia({"top_n": top_n}, answer)
        assert [row["title"] for row in result.outputs["json"]] == titles


async def test_wikipedia_finds_nothing_or_answers_with_an_error() -> None:
    for text in ("{}", '{"batchcomplete": ""}', '{"query": {}}'):
        result, _ = await search_wikipedia({}, HttpResponse(200, {}, text, ""))
        assert (result.error, result.outputs["formalized_content"], result.outputs["json"]) == (None, "", [])
    text = '{"error": {"code": "x", "info": "The search is too long."}}'
    result, _ = await search_wikipedia({}, HttpResponse(200, {}, text, ""))
    assert result.error == "Wikipedia rejected the search: The search is too long."
