"""ArXiv: search scientific papers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import parse_xml
from ragflow_lg.component.service_client import MAX_ROWS, open_service, read_fields
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import Query, RunContext, build_search_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("arXiv", "arxiv", "https://export.arxiv.org")

MAX_AUTHORS = 200
"""Authors per paper; some papers have thousands."""

_ATOM = "{http://www.w3.org/2005/Atom}"


class Params(ComponentParams):
    """Parameters of ArXiv."""

    top_n: int = Field(12, gt=0, strict=True)
    """Number of papers, at most 1000."""
    sort_by: Literal["submittedDate", "lastUpdatedDate", "relevance"] = "submittedDate"


@tool(
    "ArXiv",
    function="arxiv_search",
    params=Params,
    arguments=query_argument("Search keywords. arXiv field prefixes such as ti: and au: are supported."),
    effects="reads",
    description="Search scientific papers on arXiv by keywords. Returns titles, URLs and abstracts.",
    source="agent/tools/arxiv.py",
    service=SERVICE,
)
async def arxiv(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Request all papers at once."""
    require("html", "ArXiv")
    count = min(params.top_n, MAX_ROWS)
    query = {
        "search_query": arguments.query,
        "id_list": "",
        "sortBy": params.sort_by,
        "sortOrder": "descending",
        "start": "0",
        "max_results": str(count),
    }
    service = open_service(ctx, SERVICE)
    response = await service.ask(ctx, HttpRequest("GET", f"{service.address}/api/query", query=query, timeout_s=12.0))
    papers = service.rows({"papers": _papers(response.text, count)}, "papers")
    return build_search_result(papers, read_fields("title", "pdf_url", "summary"))


def _papers(feed: str, count: int) -> list[dict[str, Any]]:
    """Parse an Atom feed."""
    try:
        root = parse_xml(feed, f"{_ATOM}feed")
    except ValueError as error:
        raise ServiceError(f"arXiv answered with {error}.") from None
    return [_paper(entry) for entry in root.findall(f"{_ATOM}entry")[:count]]


def _paper(entry: Any) -> dict[str, Any]:
    id_ = _text(entry, "id")
    summary = _text(entry, "summary")
    if "/api/errors" in id_:
        raise ServiceError(f"arXiv rejected the search: {summary[:200]}")
    links = [link.get("href") or "" for link in entry.findall(f"{_ATOM}link") if link.get("title") == "pdf"]
    return {
        "title": " ".join(_text(entry, "title").split()),
        "authors": [_text(author, "name") for author in entry.findall(f"{_ATOM}author")[:MAX_AUTHORS]],
        "summary": summary,
        "pdf_url": links[0] if links else id_.replace("/abs/", "/pdf/"),
        "entry_id": id_,
    }


def _text(element: Any, name: str) -> str:
    """Return the text directly inside the first child with the given name."""
    return (element.findtext(f"{_ATOM}{name}") or "").strip()
