from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.foreign_markup import MAX_HTML_CHARS
from ragflow_lg.integrations.search.crawler import convert_page
from ragflow_lg.services.tool_policies import CrawlerRules
from tests.fakes.tool_stubs import web_site
from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub
from tests.harness.rows import each_row, read_rows
from tests.integrations.search.cases import run_tool


async def read(path: str, **more: Any) -> str:
    result = await run_tool("Crawler", query=f"http://{{host}}{path}", **more)
    return str(result.error or result.outputs["formalized_content"])


async def test_a_page_as_markdown() -> None:
    text = await read("/laos")
    host = text.partition("[Home](http://")[2].partition("/")[0]
    assert [line for line in text.replace(host, "h").splitlines() if line] == [
        *("[Home](http://h/)", "- Menu", "# Laos & the Mekong", "The capital is [Vientiane](http://h/vientiane)."),
        *("1. First", "2. Second", "   - Inner", "| City | People |", "| --- | --- |", "| Vientiane | 948,477 |"),
        *("```", "a = 1", "  b = 2", "```", "> Quoted.", "![A map](http://h/map.png)", "Imprint"),
    ]


async def test_a_page_as_html() -> None:
    page = await read("/laos", extract_type="html")
    assert "<h1>Laos &amp; the Mekong</h1>" in page
    assert "<script" not in page
    assert "style" not in page


@each_row(
    ("page", "text"),
    [
        *read_rows("pages_as_markdown"),
        ("<title>a</title><style>b</style><noscript>c</noscript><!-- d --><script>e</script>" + "f" * 40, "f" * 40),
    ],
)
def test_markdown(page: str, text: str) -> None:
    assert convert_page(page, "http://h/p", "markdown") == text


def test_clean_html_has_neither_scripts_nor_handlers() -> None:
    page = '<p onclick="x()" style="y">a<script>z</script><a href="javascript:1" target=_blank>b</a><br>&lt;i&gt;</p>'
    html = convert_page(page + "c" * 40, "http://h", "html")
    assert html == f"<body><p>a<a>b</a><br>&lt;i&gt;</p>{'c' * 40}</body>"


def test_a_page_that_is_long_or_nested_too_deeply_is_refused() -> None:
    for part in ("<ul><li>", "<blockquote>", "<table><tr><td>", "<font><p>", "<div>"):
        with pytest.raises(ServiceError, match="nested too deeply"):
            convert_page(part * 20_000, "http://h", "markdown")
    with pytest.raises(ServiceError, match="at most"):
        convert_page("x" * (MAX_HTML_CHARS + 1), "http://h", "markdown")


async def test_the_main_text_of_a_page_without_further_requests() -> None:
    stub = web_site.stub()
    result = await run_tool("Crawler", stub, query="http://{host}/mekong", extract_type="content")
    text = str(result.error or result.outputs["formalized_content"])
    assert text.startswith("# The Mekong")
    assert "- Length: 4,350 km" in text
    assert "See its dams" in text.replace("\n", " ")
    assert "Menu" not in text
    assert "Imprint" not in text
    assert [call.path for call in stub.received] == ["/robots.txt", "/mekong"]


@each_row(
    ("path", "says"),
    [
        ("/old", "# Laos & the Mekong"),
        ("/data.json", '{"a": 1}'),
        ("/paper.pdf", "The address leads to 'application/pdf', which is not a web page."),
        ("/app", "its scripts build it in a browser"),
        ("/private", "does not allow programs to read this page"),
        ("/into-private", "does not allow programs to read this page"),
        ("/inside", "[http] allow"),
        ("/round", "The page redirects more than 4 times."),
        ("/missing", "The page answered 404: <h1>Not Found</h1>"),
    ],
)
async def test_every_kind_of_address(path: str, says: str) -> None:
    assert says in await read(path)


@each_row("url", ["example.org", "ftp://example.org", "http://[", "file:///etc/passwd", "javascript:1"])
async def test_an_invalid_url_is_an_error(url: str) -> None:
    stub = web_site.stub()
    result = await run_tool("Crawler", stub, query=url)
    assert "URL not valid" in str(result.error)
    assert stub.received == []


async def test_the_settings_decide_about_robots_and_sizes() -> None:
    assert "# Laos" in await read("/private", crawler=CrawlerRules(obeys_robots=False))
    small = CrawlerRules(max_page_bytes=4000)
    assert "larger than the limit of 4,000 bytes." in await read("/large", crawler=small)
    stub = web_site.stub()
    await run_tool("Crawler", stub, query="http://{host}/laos")
    assert {call.headers["user-agent"] for call in stub.received} == {"ragflow-lg"}


@each_row(("status", "says"), [(404, "# Laos"), (503, "robots.txt of the site is unavailable")])
async def test_a_missing_robots_allows_and_an_unavailable_one_forbids(status: int, says: str) -> None:
    def handle(call: Call) -> Answer:
        return Answer("", status) if call.path == "/robots.txt" else web_site.handle(call)

    result = await run_tool("Crawler", ServiceStub(handle, Answer("", 429)), query="http://{host}/laos")
    assert says in str(result.error or result.outputs["formalized_content"])


@each_row(("hops", "says"), [(1, "does not allow"), (5, "does not allow"), (6, "# Laos")])
async def test_redirects_of_robots_are_followed(hops: int, says: str) -> None:
    def handle(call: Call) -> Answer:
        if not call.path.startswith("/robots"):
            return web_site.handle(call)
        number = int(call.path.removeprefix("/robots").removesuffix(".txt") or 0)
        if number < hops:
            return Answer("", 301, {"Location": f"/robots{number + 1}.txt"})
        return Answer("User-agent: *\nDisallow: /", kind="text/plain")

    result = await run_tool("Crawler", ServiceStub(handle, Answer("", 429)), query="http://{host}/laos")
    assert says in str(result.error or result.outputs["formalized_content"])


@each_row("path", ["laos", "private"])
async def test_an_account_in_an_address_is_used_and_not_shown(path: str) -> None:
    stub = web_site.stub()
    result = await run_tool("Crawler", stub, query=f"http://anna:s3cret@{{host}}/{path}")
    assert stub.received[-1].headers["authorization"] == "Basic YW5uYTpzM2NyZXQ="
    assert "s3cret" not in str((result.error, result.outputs))
