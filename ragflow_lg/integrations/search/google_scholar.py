"""GoogleScholar: search scholarly literature."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import read_html_records
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import open_service, read_label, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import NOTHING_FOUND, Query, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Google Scholar", "scholar", "https://scholar.google.com")
HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; ragflow-lg)", "Accept-Language": "en"}
FIELDS = {"gs_rt": "title", "gs_a": "authors", "gs_rs": "abstract"}
PAGE = 10
"""Results per page of Google Scholar."""
MAX_RESULTS = 100

_MARKS = re.compile(r"^(\[[A-Z]{1,20}\]\s*)+")
_NONE_FOUND = "did not match any articles"

Year = Annotated[Annotated[int, Field(ge=0, le=9999)] | None, BeforeValidator(lambda value: value or None)]


class Params(ComponentParams):
    """Parameters of GoogleScholar."""

    top_n: int = Field(12, gt=0, strict=True)
    """Number of results, at most 100."""
    sort_by: Literal["relevance", "date"] = "relevance"
    year_low: Year = None
    year_high: Year = None
    patents: bool = True
    """Whether to include patents."""


@tool(
    "GoogleScholar",
    function="google_scholar_search",
    params=Params,
    arguments=Query,
    blank=ToolResult("", {**NOTHING_FOUND.outputs, "json": []}),
    effects="pays",
    description="Search articles, theses, books and court opinions on Google Scholar. Returns titles, URLs, authors "
    "and abstracts.",
    source="agent/tools/googlescholar.py",
    service=SERVICE,
)
async def google_scholar(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Read pages of results until there are enough. Google Scholar has no API, so its web pages are parsed."""
    require("html", "GoogleScholar")
    service = open_service(ctx, SERVICE)
    count = min(params.top_n, MAX_RESULTS)
    rows: list[dict[str, str]] = []
    for start in range(0, count, PAGE):
        query = {**_query(params, arguments), **({"start": str(start)} if start else {})}
        request = HttpRequest("GET", f"{service.address}/scholar", HEADERS, query, timeout_s=12.0)
        page = _results((await service.ask(ctx, request)).text)
        rows += page
        if len(page) < PAGE:
            break
    found = service.rows(cast("dict[str, Any]", {"results": rows}), "results", count)
    return build_search_result(found, _row)


def _query(params: Params, arguments: Query) -> dict[str, str]:
    """Return the parameters that the package ``scholarly`` sends."""
    query = {"hl": "en", "q": arguments.query, "as_vis": "0", "as_sdt": "0,33" if params.patents else "1,33"}
    if params.year_low:
        query["as_ylo"] = str(params.year_low)
    if params.year_high:
        query["as_yhi"] = str(params.year_high)
    if params.sort_by == "date":
        query["scisbd"] = "1"
    return query


def _results(page: str) -> list[dict[str, str]]:
    """Return the results on a page."""
    try:
        records, _ = read_html_records(page, "gs_ri", FIELDS)
    except ValueError as error:
        raise ServiceError(f"Google Scholar answered with {error}.") from None
    if not records and _NONE_FOUND not in page:
        raise ServiceError(
            "Google Scholar answered with a page without results; it may be a CAPTCHA. It refuses many automated "
            "searches; another search tool is more reliable.",
            is_retryable=True,
        )
    return [
        {
            "title": _MARKS.sub("", row["title"]),
            "url": row["href"] if row["href"].startswith(("http://", "https://")) else "",
            "authors": row["authors"],
            "abstract": row["abstract"],
        }
        for row in records
    ]


def _row(row: dict[str, JsonValue]) -> tuple[str, str, str, float]:
    abstract = read_text(row, "abstract") or "no abstract"
    text = f"\n author: {read_text(row, 'authors')}\n Abstract: {abstract}"
    return read_label(row, "title"), read_label(row, "url"), text, 1.0
