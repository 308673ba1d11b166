"""TavilySearch: searches the web with Tavily."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, Field

from ragflow_lg.errors import SettingsError
from ragflow_lg.references import chunks_of_rows
from ragflow_lg.services import HttpRequest
from ragflow_lg.spec import ComponentParams, OneOrMany, ToolResult
from ragflow_lg.tool import cited, json_of, tool

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["tavily_search"]

Topic = Literal["general", "news"]


class Params(ComponentParams):
    """Parameters of TavilySearch."""

    api_key: str | None = ""
    """Else the key ``tavily`` of the settings."""
    topic: Topic = "general"
    search_depth: Literal["basic", "advanced"] = "basic"
    max_results: int = Field(6, gt=0, strict=True)
    days: int = Field(14, gt=0, strict=True)
    """How old news may be."""
    include_answer: bool = False


class Arguments(BaseModel):
    """What to look for, and where."""

    query: str = Field("", description="Key words of what to look for on the web, the most important first.")
    topic: Topic | None = Field(None, description="news for recent events, else general.")
    include_domains: OneOrMany[str] = Field(default_factory=list[str], description="Only results from these domains.")
    exclude_domains: OneOrMany[str] = Field(default_factory=list[str], description="No results from these domains.")


@tool(
    "TavilySearch",
    function="tavily_search",
    params=Params,
    arguments=Arguments,
    timeout_s=12.0,
    description="Search the web. Give key words; results come with title, address and content.",
    source="agent/tools/tavily.py",
)
async def tavily_search(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search once; nothing is asked without a query."""
    if not arguments.query.strip():
        return ToolResult("", {"formalized_content": ""})
    key = params.api_key or ctx.services.tools.keys.get("tavily", "")
    if not key:
        raise SettingsError("TavilySearch has no key: set api_key in the canvas, or tavily in ToolSettings.keys.")
    body = {
        "query": arguments.query,
        "topic": arguments.topic or params.topic,
        "search_depth": params.search_depth,
        "max_results": params.max_results,
        "days": params.days,
        "include_answer": params.include_answer,
        "include_raw_content": False,
        "include_images": False,
        "include_image_descriptions": False,
        "include_domains": arguments.include_domains,
        "exclude_domains": arguments.exclude_domains,
    }
    url = ctx.services.tools.endpoint("tavily", "https://api.tavily.com") + "/search"
    request = HttpRequest("POST", url, {"Authorization": f"Bearer {key}"}, json=body, timeout_s=12.0)
    answer = json_of(await ctx.services.http.send(request), "Tavily")
    rows = cast("list[dict[str, Any]]", answer.get("results") or [])
    return cited(chunks_of_rows(map(_row, rows)), rows)


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    content = row.get("raw_content") or row.get("content") or ""
    return str(row.get("title") or ""), str(row.get("url") or ""), str(content), float(row.get("score") or 1)
