"""Every tool with an answer of its service that has one result, and the services that have stubs."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.spec import AnySpec, ToolRules
from ragflow_lg.component.tool import SearchOutputs
from ragflow_lg.services.services import Services
from ragflow_lg.services.tool_policies import CrawlerRules, ToolSettings
from tests.fakes.run import Result, run_component
from tests.fakes.services import fake_services
from tests.fakes.tool_stubs import google_scholar, pubmed, web_site
from tests.fakes.tool_stubs.rules import service
from tests.fakes.tool_stubs.stub import Call, ServiceStub, serving
from tests.integrations.search.test_arxiv import ENTRY, feed
from tests.integrations.search.test_duckduckgo import HOME, LAOS, NEWS, page

KEY = "s3cret/key+1"
ROW = {"title": "Laos", "url": "http://e", "score": 0.5} | dict.fromkeys(
    ("content", "raw_content", "snippet", "text"), "x"
)


def spec_of(name: str) -> AnySpec:
    spec = load_catalog().get(name)
    assert spec is not None
    return spec


def rules_of(name: str) -> ToolRules[Any, Any]:
    rules = spec_of(name).tool
    assert rules is not None
    return rules


@dataclass(frozen=True)
class Tool:
    """A tool and an answer of its service with one result."""

    name: str
    service: str
    path: str
    of_rows: Callable[[Any], Any] | None = None
    """Wraps a list of results into an answer; None if the answer is not JSON."""
    row: Any = field(default_factory=lambda: ROW)
    text: str = ""
    """The answer, if it is not the row in a list."""
    params: dict[str, Any] = field(default_factory=lambda: {"query": "laos"})
    first_pages: dict[str, str] = field(default_factory=dict[str, str])
    reads_any_text: bool = False
    """Whether any text is a valid answer."""
    wrap: Callable[[str], str] = str
    """Wraps the JSON of an answer."""

    @property
    def spec(self) -> AnySpec:
        return spec_of(self.name)

    @property
    def body(self) -> str:
        return self.text or self.answer([self.row])

    @property
    def key(self) -> str:
        """The key that a service can repeat: only one that was sent to it."""
        about = rules_of(self.name).service
        return KEY if about is not None and about.key != "none" else "key"

    @property
    def needs_key(self) -> bool:
        about = rules_of(self.name).service
        return about is not None and about.key == "required"

    def answer(self, rows: Any) -> str:
        """Return the answer with these rows as its list."""
        assert self.of_rows is not None
        return self.wrap(json.dumps(self.of_rows(rows)))

    def params_at(self, host: str) -> dict[str, Any]:
        """Return the params for a service at a host other than ``t``."""
        return json.loads(json.dumps(self.params).replace("http://t/", f"http://{host}/"))

    @property
    def output(self) -> str:
        """The output with the result."""
        fields = list(self.spec.outputs.model_fields)
        return "json" if self.spec.outputs is SearchOutputs or not fields else fields[0]


def _at(name: str) -> Callable[[Any], Any]:
    return lambda rows: {name: rows}


WIKI_ROW = {"index": 1, "title": "Laos", "fullurl": "http://e", "extract": "x"}
GIT_ROW = {"name": "laos", "html_url": "http://e", "description": "x", "watchers": 1}
GOOGLE_ROW = {"title": "L", "link": "http://e", "snippet": "x", "about_this_result": {"source": {"description": "d"}}}
ARTICLE = {"code": "1", "title": "Laos", "content": "x", "date": "2026", "mediaName": "y"}
PAPER = {"title": "Laos", "url": "http://e", "abstract": "x", "methods": "y"}
FLASH = {"title": "Laos", "data": {"content": "Gold."}}
SCHOLAR = google_scholar.handle(Call("GET", "/scholar", {"q": "x", "start": "22"}, {}, b"")).body
ARTICLES = pubmed.handle(Call("GET", "/efetch.fcgi", {"id": "1"}, {}, b"")).body
PLACES = json.dumps({"code": "200", "location": [{"id": "1"}]})
URLS = {"urls": ["http://e"]}


def _articles(rows: Any) -> Any:
    return {"result": {"cmsArticleWebOld": rows}}


def _days(rows: Any) -> Any:
    return {"code": "200", "daily": rows}


def _table(rows: Any) -> Any:
    return {"code": 0, "data": {"fields": ["datetime", "content", "title"], "items": rows}}


def _pages(rows: Any) -> Any:
    return {"query": {"pages": rows}}


TOOLS = [
    Tool("TavilySearch", "tavily", "/search", _at("results")),
    Tool("TavilyExtract", "tavily", "/extract", _at("results"), params=URLS),
    Tool("Wikipedia", "wikipedia", "/", _pages, WIKI_ROW, json.dumps(_pages({"1": WIKI_ROW}))),
    Tool("GitHub", "github", "/search/repositories", _at("items"), GIT_ROW),
    Tool("Google", "serpapi", "/search", _at("organic_results"), GOOGLE_ROW, params={"q": "laos"}),
    Tool("ArXiv", "arxiv", "/api/query", text=feed(ENTRY)),
    Tool("DuckDuckGo", "duckduckgo", "/html/", text=page(LAOS)),
    Tool("DuckDuckGo", "duckduckgo", "/news.js", _at("results"), NEWS["results"][0], "",
         {"query": "laos", "channel": "news"}, {"/": HOME}),
    Tool("AkShare", "akshare", "/search/jsonp", _articles, ARTICLE, wrap="ragflow_lg({})".format),
    Tool("BGPT", "bgpt", "/api/mcp-search", _at("results"), PAPER),
    Tool("Crawler", "none", "/laos", None, {}, web_site.PAGE, {"query": "http://t/laos"}, {"/robots.txt": ""}, True),
    Tool("DeepL", "deepl", "/v2/translate", _at("translations")),
    Tool("GoogleScholar", "scholar", "/scholar", text=SCHOLAR),
    Tool("Jin10", "jin10", "/data-api/flash", _at("data"), FLASH),
    Tool("KeenableSearch", "keenable", "/v1/search", _at("results")),
    Tool("PubMed", "pubmed", "/efetch.fcgi", text=ARTICLES,
         first_pages={"/esearch.fcgi": json.dumps({"esearchresult": {"idlist": ["1"]}})}),
    Tool("QueritSearch", "querit", "/v1/search", lambda rows: {"results": {"result": rows}}),
    Tool("QueritContents", "querit", "/v1/contents", _at("results"), params=URLS),
    Tool("QWeather", "qweather", "/v7/weather/3d", _days, {"title": "Laos", "tempMax": "12"}, "",
         {"query": "laos", "time_period": "3d"}, {"/geo/v2/city/lookup": PLACES}),
    Tool("SearXNG", "searxng", "/search", _at("results"), params={"query": "laos", "searxng_url": "http://t"}),
    Tool("TuShare", "tushare", "/", _table, ["t", "Laos", "x"]),
    Tool("WenCai", "wencai", "/v1/query2data", _at("datas")),
    Tool("YahooFinance", "yahoo", "/v1/finance/search", _at("news"), params={"stock_code": "laos", "info": False}),
]  # fmt: skip


class Contract(NamedTuple):
    """A tool and the stub of its service. ``{host}`` in the query is the host of the stub."""

    name: str
    service: str
    says: str
    """A part of the result of a usual call."""
    query: str = "Laos"
    nothing: str = "nothing"
    """A query that finds nothing."""

    @property
    def key(self) -> str:
        return getattr(service(self.service), "KEY", "")

    def stub(self) -> ServiceStub:
        return service(self.service).stub()

    @property
    def section(self) -> str:
        about = rules_of(self.name).service
        return about.section if about else "none"

    def arguments(self, host: str, query: str = "") -> dict[str, Any]:
        return {rules_of(self.name).needs: (query or self.query).replace("{host}", host)}

    def text_of(self, result: Result) -> str:
        value = result.outputs[next(iter(spec_of(self.name).outputs.model_fields), "json")]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


CONTRACTS = [
    Contract("AkShare", "akshare", 'com/a/202601010000.html">贵州茅台新闻0</a>', "600519"),
    Contract("BGPT", "bgpt", "Results: It worked 3 times."),
    Contract("Crawler", "web_site", "# Laos & the Mekong", "http://{host}/laos", ""),
    Contract("DeepL", "deepl", "Hello", "你好", ""),
    Contract("GoogleScholar", "google_scholar", "Attention 1"),
    Contract("Jin10", "jin10", "黄金上涨。", "黄金"),
    Contract("KeenableSearch", "keenable", "Text 3 about Laos."),
    Contract("PubMed", "pubmed", "The gene TP53 in H2O 38000000"),
    Contract("QueritSearch", "querit", "Text 3 about Laos."),
    Contract("QueritContents", "querit", "markdown of https://e/laos", "https://e/laos", "https://nothing"),
    Contract("QWeather", "qweather", "多云", "北京", ""),
    Contract("SearXNG", "searxng", "Text 3 about Laos."),
    Contract("TuShare", "tushare", "贵州茅台发布公告", "茅台"),
    Contract("WenCai", "wencai", "| 0 | 600510.SH | 贵州茅台 |", "茅台股价"),
    Contract("YahooFinance", "yahoo", "Apple \\| rises", "AAPL", ""),
]
BY_NAME = {contract.name: contract for contract in CONTRACTS}


async def run_tool(
    name: str,
    stub: ServiceStub | None = None,
    *,
    key: str | None = None,
    crawler: CrawlerRules | None = None,
    **params: Any,
) -> Result:
    """Run a tool as a node over a stub; ``{host}`` in the query is the host of the stub."""
    contract = BY_NAME[name]
    async with service_of(contract, stub or contract.stub(), key=key, crawler=crawler) as (host, services):
        if "query" in params:
            params["query"] = params["query"].replace("{host}", host)
        return await run_component(spec_of(name), {"delay_after_error": 0, **params}, services=services)


@asynccontextmanager
async def service_of(
    contract: Contract, stub: ServiceStub, *, key: str | None = None, crawler: CrawlerRules | None = None
) -> AsyncGenerator[tuple[str, Services]]:
    """Serve a stub; yield its host and services with the real, guarded HTTP client."""
    async with serving(stub) as host:
        http = GuardedHttpClient(HttpSettings(allow=(host,)))
        keys = {contract.section: contract.key if key is None else key}
        tools = ToolSettings({contract.section: f"http://{host}/"}, keys, crawler or CrawlerRules())
        try:
            yield host, fake_services(http=http, tools=tools)
        finally:
            await http.aclose()
