import json
from typing import Any

from ragflow_lg.base.foreign_markup import MAX_HTML_CHARS
from ragflow_lg.integrations.search.duckduckgo import duckduckgo
from ragflow_lg.services.http import HttpResponse
from tests.fakes.http_server import Route
from tests.fakes.run import Result, run_component
from tests.fakes.services import ScriptedHttp
from tests.fakes.tools import local_service, request_parts, run_search
from tests.harness.rows import each_row


def result_of(title: str, href: str, body: str, kind: str = "web-result") -> str:
    return f"""
    <div class="result results_links results_links_deep {kind}"><div class="links_main links_deep result__body">
      <h2 class="result__title"><a rel="nofollow" class="result__a" href="{href}">{title}</a></h2>
      <div class="result__extras"><a class="result__url" href="{href}">somewhere</a></div>
      <a class="result__snippet" href="{href}">{body}</a>
      <div class="clear"></div>
    </div></div>"""


LAOS = result_of(
    "Laos &amp; <b>more</b>", "//duckduckgo.com/l/?uddg=http%3A%2F%2Fe%2Flaos%3Fa%3D1&rut=abc", "A\n <b>land</b>."
)
PLAIN = result_of("Plain", "https://e/plain", "Direct.")
ADS = [
    result_of("Buy", "https://duckduckgo.com/y.js?ad_domain=x", "Cheap.", "result--ad"),
    result_of("Buy", "//duckduckgo.com/l/?uddg=https%3A%2F%2Fduckduckgo.com%2Fy.js%3Fad_domain%3Dx", "Cheap."),
    result_of("Odd", "javascript:alert(1)", "Odd."),
    result_of("Bad", "http://[x", "Bad."),
    result_of("Many", "/l/?" + "&amp;".join(f"a{n}=1" for n in range(99)), "Many."),
]
FOUND = [
    {"title": "Laos & more", "href": "http://e/laos?a=1", "body": "A land."},
    {"title": "Plain", "href": "https://e/plain", "body": "Direct."},
]
NEWS: dict[str, Any] = {
    "results": [
        {
            **{"date": 1700000000, "title": "Flood &amp; rain", "url": "http://n/1", "source": "Times"},
            **{"excerpt": "The <b>Mekong</b> rises.", "image": "http://n/1.png"},
        }
    ]
}
NEWS_ROW = {
    **{"date": "2023-11-14T22:13:20+00:00", "title": "Flood & rain", "body": "The Mekong rises."},
    **{"url": "http://n/1", "image": "http://n/1.png", "source": "Times"},
}
HOME = '<script>DDG.x();vqd="4-12345678";</script>'


def page(*results: str) -> str:
    return f"<!DOCTYPE html><html><head><title>x</title></head><body>{''.join(results)}</body></html>"


async def search(params: dict[str, Any], body: str, status: int = 200) -> tuple[Result, ScriptedHttp]:
    answers = {"http://t/html/": HttpResponse(status, {}, body, "")}
    return await run_search(duckduckgo, params, answers, service="duckduckgo")


async def test_results_without_advertisements() -> None:
    result, _ = await search({}, page(ADS[0], LAOS, *ADS[1:], PLAIN))
    assert result.outputs["json"] == FOUND
    text = "├── Title: Laos & more\n├── URL: http://e/laos?a=1\n└── Content:\nA land."
    assert text in result.outputs["formalized_content"]
    result, _ = await search({"top_n": 1}, page(ADS[0], LAOS, PLAIN))
    assert result.outputs["json"] == FOUND[:1]
    result, _ = await search({}, page('<div class="no-results">No results.</div>'))
    assert (result.error, result.outputs["formalized_content"], result.outputs["json"]) == (None, "", [])


@each_row(
    ("body", "status", "says"),
    [
        (page("<form>Prove that you are human.</form>"), 200, "a page without results"),
        (page("riddle"), 202, "refusing automated searches"),
        ("", 200, "a page without results"),
        ("{}", 200, "a page without results"),
        ("gone", 404, "DuckDuckGo answered 404: gone"),
        ("x" * (MAX_HTML_CHARS + 1), 200, "at most 4,194,304"),
    ],
)
async def test_a_page_without_results_is_an_error(body: str, status: int, says: str) -> None:
    result, _ = await search({}, body, status)
    assert says in str(result.error)


@each_row(
    "body",
    [
        page(PLAIN)[:-150],
        page(LAOS * 3)[:-180],
        page("<a class=result__a>" * 20_000),
        page("<div>" * 200 + LAOS),
        page('<a class="result__snippet">lost</a>', PLAIN),
        page(PLAIN.replace("Plain", "<b>" * 5000)),
    ],
)
async def test_a_broken_page_yields_its_readable_results(body: str) -> None:
    result, _ = await search({}, body)
    assert result.error is None
    assert all(row["href"].startswith("http") for row in result.outputs["json"])


async def test_news_on_the_wire() -> None:
    routes = (Route("/", body=HOME), Route("/news.js", body=json.dumps(NEWS)))
    async with local_service(*routes, service="duckduckgo") as (server, services):
        result = await run_component(duckduckgo, {"query": "flood", "channel": "news"}, services=services)
    assert (result.error, result.outputs["json"]) == (None, [NEWS_ROW])
    assert "├── URL: http://n/1\n└── Content:\nThe Mekong rises." in result.outputs["formalized_content"]
    first, second = map(request_parts, server.received)
    assert first == ("GET", "/", {"q": "flood", "iar": "news", "ia": "news"})
    query = {"q": "flood", "l": "wt-wt", "o": "json", "p": "1", "s": "0", "dc": "", "vqd": "4-12345678", "u": "bing"}
    assert second == ("GET", "/news.js", query)
