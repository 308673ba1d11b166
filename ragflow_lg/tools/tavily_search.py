"""TavilySearch: search the web with Tavily."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import open_service, read_label, read_number, read_text
from ragflow_lg.component.spec import ComponentParams, OneOrMany, ToolResult, ToolService
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Tavily", "tavily", "https://api.tavily.com", "required")

Topic = Literal["general", "news"]


class Params(ComponentParams):
    """Parameters of TavilySearch."""

    api_key: str | None = ""
    """Tavily key; defaults to the key in ``[tools.tavily]`` in the settings."""
    topic: Topic = "general"
    search_depth: Literal["basic", "advanced"] = "basic"
    max_results: int = Field(6, gt=0, strict=True)
    days: int = Field(14, gt=0, strict=True)
    """Maximum age of news."""
    include_answer: bool = False


class Arguments(BaseModel):
    """The search query and its filters."""

    query: QueryText = Field("", description="Search keywords, most important first.")
    topic: Topic = Field("general", description="'news' for recent events, otherwise 'general'.")
    include_domains: OneOrMany[str] = Field(
        default_factory=list[str], description="Only return results from these domains."
    )
    exclude_domains: OneOrMany[str] = Field(
        default_factory=list[str], description="Exclude results from these domains."
    )


@tool(
    "TavilySearch",
    function="tavily_search",
    params=Params,
    arguments=Arguments,
    label="Tavily",
    effects="pays",
    description="Search the web by keywords. Returns the title, URL and content of each result.",
    source="agent/tools/tavily.py",
    service=SERVICE,
    unused=frozenset(["include_image_descriptions", "include_images", "include_raw_content"]),
)
async def tavily_search(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search once."""
    tavily = open_service(ctx, SERVICE, params.api_key)
    body: dict[str, JsonValue] = {
        "query": arguments.query,
        "topic": arguments.topic,
        "search_depth": params.search_depth,
        "max_results": params.max_results,
        "days": params.days,
        "include_answer": params.include_answer,
        "include_raw_content": False,
        "include_images": False,
        "include_image_descriptions": False,
        "include_domains": [*arguments.include_domains],
        "exclude_domains": [*arguments.exclude_domains],
    }
    url = f"{tavily.address}/search"
    headers = {"Authorization": f"Bearer {tavily.secret}"}
    answer = await tavily.ask_json(ctx, HttpRequest("POST", url, headers, json=body, timeout_s=12.0))
    rows = tavily.rows(answer, "results", params.max_results)
    return build_search_result(rows, _row)


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    content = read_text(row, "raw_content") or read_text(row, "content")
    return read_label(row, "title"), read_label(row, "url"), content, read_number(row.get("score"), 1.0)
