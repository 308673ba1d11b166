"""SearXNG: search the web with an instance of SearXNG."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from ragflow_lg.component.service_client import open_service, read_fields
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("SearXNG", "searxng", "")
READ_ROW = read_fields("title", "url", "content")


class Params(ComponentParams):
    """Parameters of SearXNG."""

    top_n: Annotated[int, Field(gt=0)] = 10
    """Number of results, at most one page of the instance."""


class Arguments(BaseModel):
    """The search query and the instance."""

    query: QueryText = Field("", description="Search keywords, most important first.")
    searxng_url: QueryText = Field(
        "", description="The address of a SearXNG instance. It is ignored if one is configured."
    )


@tool(
    "SearXNG",
    function="searxng_search",
    params=Params,
    arguments=Arguments,
    effects="reads",
    description="Search the web with SearXNG by keywords. Returns the title, URL and summary of each result.",
    source="agent/tools/searxng.py",
    service=SERVICE,
)
async def searxng(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Request the first page of results. Without an address, the result is empty."""
    service = open_service(ctx, SERVICE)
    in_canvas: Any = ctx.resolve(getattr(params, "searxng_url", None))
    address = service.address or (in_canvas if isinstance(in_canvas, str) else "") or arguments.searxng_url
    if not address.strip():
        return build_search_result([], READ_ROW)
    query = {
        "q": arguments.query,
        "format": "json",
        "categories": "general",
        "language": "auto",
        "safesearch": "1",
        "pageno": "1",
    }
    url = address.strip().rstrip("/") + "/search"
    answer = await service.ask_json(ctx, HttpRequest("GET", url, query=query, timeout_s=10.0))
    rows = service.rows(answer, "results", params.top_n)
    return build_search_result(rows, READ_ROW)
