"""DuckDuckGo: search the web or the news."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, BeforeValidator, Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import read_html_records
from ragflow_lg.component.service_client import Service, open_service, read_label, read_text, read_time
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest, HttpResponse

SERVICE = ToolService("DuckDuckGo", "duckduckgo", "https://duckduckgo.com")
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ragflow-lg)"}
REQUEST_S = 12.0
FIELDS = {"result__a": "title", "result__snippet": "body"}

_TOKEN = re.compile(r"vqd=[\"']?([0-9A-Za-z-]{3,200})")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


def _channel(value: Any) -> Any:
    return "general" if value in (None, "", "text") else value


class Params(ComponentParams):
    """Parameters of DuckDuckGo."""

    top_n: int = Field(10, gt=0, strict=True)
    channel: Literal["text", "general", "news"] = "text"
    """``text`` and ``general`` are synonyms."""


class Arguments(BaseModel):
    """The search query and the channel."""

    query: QueryText = Field("", description="Search keywords, most important first.")
    channel: Annotated[Literal["general", "news"], BeforeValidator(_channel)] = Field(
        "general", description="'news' for recent events, otherwise 'general'."
    )


@tool(
    "DuckDuckGo",
    function="duckduckgo_search",
    params=Params,
    arguments=Arguments,
    effects="reads",
    description="Search the web with DuckDuckGo by keywords. Returns the title, URL and summary of each result.",
    source="agent/tools/duckduckgo.py",
    service=SERVICE,
)
async def duckduckgo(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search web pages or news. DuckDuckGo has no API, so its web pages are parsed."""
    require("html", "DuckDuckGo")
    service = open_service(ctx, SERVICE)
    if arguments.channel == "news":
        results = await _news(ctx, service, arguments.query, params.top_n)
    else:
        query = {"q": arguments.query, "kl": "wt-wt", "dc": ""}
        page = await _page(ctx, service, "/html/", query)
        results = _results(page.text)
    rows = service.rows({"results": results}, "results", params.top_n)
    return build_search_result(rows, _row)


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    return read_label(row, "title"), read_label(row, "href") or read_label(row, "url"), read_text(row, "body"), 1.0


async def _page(ctx: RunContext, service: Service, path: str, query: Mapping[str, str]) -> HttpResponse:
    response = await service.ask(ctx, HttpRequest("GET", service.address + path, HEADERS, query, timeout_s=REQUEST_S))
    if response.status == 202:
        raise ServiceError("DuckDuckGo is currently refusing automated searches. Try again later.", is_retryable=True)
    return response


# Web pages


def _results(page: str) -> list[dict[str, str]]:
    """Return the title, URL and summary of each result on a page, without advertisements."""
    try:
        records, classes = read_html_records(page, "result__a", FIELDS)
    except ValueError as error:
        raise ServiceError(f"DuckDuckGo answered with {error}.") from None
    if not records and "no-results" not in classes:
        raise ServiceError("DuckDuckGo answered with a page without results; it may be a CAPTCHA.")
    rows = [{"title": row["title"], "href": _target(row["href"]), "body": row["body"]} for row in records]
    return [row for row in rows if row["href"]]


def _target(href: str) -> str:
    """Return the target URL of a DuckDuckGo redirect; ``""`` for an advertisement."""
    try:
        parts = urlsplit(href.strip())
        inner = parse_qs(parts.query, max_num_fields=50).get("uddg", [""])[0]
        address = urlsplit(inner) if inner else parts
    except ValueError:
        return ""
    host = address.netloc.lower()
    if address.scheme not in ("http", "https") or (host.endswith("duckduckgo.com") and address.path == "/y.js"):
        return ""
    return inner or href.strip()


# News


async def _news(ctx: RunContext, service: Service, query: str, count: int) -> list[dict[str, str]]:
    page = await _page(ctx, service, "/", {"q": query, "iar": "news", "ia": "news"})
    token = _TOKEN.search(page.text)
    if token is None:
        raise ServiceError("DuckDuckGo answered with a page without the token (vqd) that a news search requires.")
    parameters = {"q": query, "l": "wt-wt", "o": "json", "p": "1", "s": "0", "dc": "", "vqd": token[1], "u": "bing"}
    answer = await service.read_json(ctx, await _page(ctx, service, "/news.js", parameters))
    return [_news_row(row) for row in service.rows(answer, "results", count)]


def _news_row(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "date": time.isoformat() if (time := read_time(row.get("date"))) else read_text(row, "date"),
        "title": _plain(read_text(row, "title")),
        "body": _plain(read_text(row, "excerpt")),
        "url": read_label(row, "url"),
        "image": read_label(row, "image"),
        "source": read_label(row, "source"),
    }


def _plain(text: str) -> str:
    bare = _TAG.sub("", text)
    try:
        return html.unescape(bare)
    except ValueError:  # a character reference with thousands of digits
        return bare
