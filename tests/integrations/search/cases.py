"""Every tool with an answer of its service that has one result."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.spec import AnySpec, ToolRules
from ragflow_lg.component.tool import SearchOutputs
from tests.fakes.tool_stubs import google_scholar, pubmed, web_site
from tests.fakes.tool_stubs.stub import Call
from tests.integrations.search.test_arxiv import ENTRY, feed
from tests.integrations.search.test_duckduckgo import HOME, LAOS, NEWS, page

KEY = "s3cret/key+1"


@dataclass(frozen=True)
class Tool:
    """A tool and an answer of its service with one result."""

    name: str
    service: str
    path: str
    body: str
    of_rows: Callable[[Any], Any] | None = None
    """Wraps a replacement of the result list into an answer; None if the answer is not JSON."""
    params: dict[str, Any] = field(default_factory=lambda: {"query": "laos"})
    first_pages: dict[str, str] = field(default_factory=dict[str, str])
    reads_any_text: bool = False
    """Whether any text is a valid answer."""
    wrap: Callable[[str], str] = str
    """Wraps the JSON of an answer."""

    @property
    def spec(self) -> AnySpec:
        spec = load_catalog().get(self.name)
        assert spec is not None
        return spec

    @property
    def key(self) -> str:
        """The key that a service can repeat: only one that was sent to it."""
        about = self.rules.service
        return KEY if about is not None and about.key != "none" else "key"

    @property
    def needs_key(self) -> bool:
        about = self.rules.service
        return about is not None and about.key == "required"

    def answer(self, rows: Any) -> str:
        """Return the answer with these rows as its list."""
        assert self.of_rows is not None
        return self.wrap(json.dumps(self.of_rows(rows)))

    def params_at(self, host: str) -> dict[str, Any]:
        """Return the params for a service at a host other than ``t``."""
        moved = {
            name: value.replace("http://t/", f"http://{host}/") if isinstance(value, str) else value
            for name, value in self.params.items()
        }
        return moved

    @property
    def rules(self) -> ToolRules[Any, Any]:
        assert self.spec.tool is not None
        return self.spec.tool

    @property
    def needs(self) -> str:
        return self.rules.needs

    @property
    def output(self) -> str:
        """The output with the result."""
        fields = list(self.spec.outputs.model_fields)
        return "json" if self.spec.outputs is SearchOutputs or not fields else fields[0]


def _at(name: str) -> Callable[[Any], Any]:
    return lambda rows: {name: rows}


ROW = {
    "title": "Laos",
    "url": "http://e",
    "content": "x",
    "score": 0.5,
    "raw_content": "y",
    "snippet": "z",
    "text": "t",
}
WIKI_ROW = {"index": 1, "title": "Laos", "fullurl": "http://e", "extract": "x"}
GIT_ROW = {"name": "laos", "html_url": "http://e", "description": "x", "watchers": 1}
GOOGLE_ROW = {"title": "L", "link": "http://e", "snippet": "x", "about_this_result": {"source": {"description": "d"}}}


def _json(name: str, row: dict[str, Any]) -> str:
    return json.dumps({name: [row]})


ARTICLE = {"code": "1", "title": "Laos", "content": "x", "date": "2026", "mediaName": "y"}
PAPER = {"title": "Laos", "url": "http://e", "abstract": "x", "methods": "y"}
FLASH = {"title": "Laos", "data": {"content": "Gold."}}
SCHOLAR = google_scholar.handle(Call("GET", "/scholar", {"q": "x", "start": "22"}, {}, b"")).body
ARTICLES = pubmed.handle(Call("GET", "/efetch.fcgi", {"id": "1"}, {}, b"")).body
FOUND_IDS = json.dumps({"esearchresult": {"idlist": ["1"]}})
PLACES = json.dumps({"code": "200", "location": [{"id": "1"}]})
WEATHER = {"query": "laos", "time_period": "3d"}
DAYS = json.dumps({"code": "200", "daily": [{"title": "Laos", "tempMax": "12"}]})
SEARXNG = {"query": "laos", "searxng_url": "http://t"}
YAHOO = {"stock_code": "laos", "info": False}


def _articles(rows: Any) -> Any:
    return {"result": {"cmsArticleWebOld": rows}}


def _jsonp(answer: str) -> str:
    return f"ragflow_lg({answer})"


def _days(rows: Any) -> Any:
    return {"code": "200", "daily": rows}


def _table(rows: Any) -> Any:
    return {"code": 0, "data": {"fields": ["datetime", "content", "title"], "items": rows}}


TOOLS = [
    Tool("TavilySearch", "tavily", "/search", _json("results", ROW), _at("results")),
    Tool(
        "TavilyExtract",
        "tavily",
        "/extract",
        _json("results", ROW),
        _at("results"),
        {"urls": ["http://e"]},
    ),
    Tool(
        "Wikipedia",
        "wikipedia",
        "/",
        json.dumps({"query": {"pages": {"1": WIKI_ROW}}}),
        lambda rows: {"query": {"pages": rows}},
    ),
    Tool("GitHub", "github", "/search/repositories", _json("items", GIT_ROW), _at("items")),
    Tool(
        "Google",
        "serpapi",
        "/search",
        _json("organic_results", GOOGLE_ROW),
        _at("organic_results"),
        {"q": "laos"},
    ),
    Tool("ArXiv", "arxiv", "/api/query", feed(ENTRY)),
    Tool("DuckDuckGo", "duckduckgo", "/html/", page(LAOS)),
    Tool(
        "DuckDuckGo",
        "duckduckgo",
        "/news.js",
        json.dumps(NEWS),
        _at("results"),
        {"query": "laos", "channel": "news"},
        first_pages={"/": HOME},
    ),
    Tool("AkShare", "akshare", "/search/jsonp", _jsonp(json.dumps(_articles([ARTICLE]))), _articles, wrap=_jsonp),
    Tool("BGPT", "bgpt", "/api/mcp-search", _json("results", PAPER), _at("results")),
    Tool("Crawler", "none", "/laos", web_site.PAGE, None, {"query": "http://t/laos"}, {"/robots.txt": ""}, True),
    Tool("DeepL", "deepl", "/v2/translate", _json("translations", ROW), _at("translations")),
    Tool("GoogleScholar", "scholar", "/scholar", SCHOLAR),
    Tool("Jin10", "jin10", "/data-api/flash", _json("data", FLASH), _at("data")),
    Tool("KeenableSearch", "keenable", "/v1/search", _json("results", ROW), _at("results")),
    Tool("PubMed", "pubmed", "/efetch.fcgi", ARTICLES, first_pages={"/esearch.fcgi": FOUND_IDS}),
    Tool(
        "QueritSearch",
        "querit",
        "/v1/search",
        json.dumps({"results": {"result": [ROW]}}),
        lambda rows: {"results": {"result": rows}},
    ),
    Tool("QueritContents", "querit", "/v1/contents", _json("results", ROW), _at("results"), {"urls": ["http://e"]}),
    Tool("QWeather", "qweather", "/v7/weather/3d", DAYS, _days, WEATHER, {"/geo/v2/city/lookup": PLACES}),
    Tool("SearXNG", "searxng", "/search", _json("results", ROW), _at("results"), SEARXNG),
    Tool("TuShare", "tushare", "/", json.dumps(_table([["t", "Laos", "x"]])), _table),
    Tool("WenCai", "wencai", "/v1/query2data", _json("datas", ROW), _at("datas")),
    Tool("YahooFinance", "yahoo", "/v1/finance/search", _json("news", ROW), _at("news"), YAHOO),
]
