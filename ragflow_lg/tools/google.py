"""Google: search the web with Google through SerpApi."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from ragflow_lg.component.service_client import open_service, read_label, read_text
from ragflow_lg.component.spec import ArgumentOrValue, ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("SerpApi", "serpapi", "https://serpapi.com", "required")
MAX_PAGE = 100
"""Maximum number of results per request."""

DEFAULT_COUNT = 6


class Params(ComponentParams):
    """Parameters of Google."""

    api_key: str | None = ""
    """SerpApi key; defaults to the key in ``[tools.serpapi]`` in the settings."""
    country: str = Field("cn", pattern="^[A-Za-z]{2}$")
    """Two-letter country code, such as us."""
    language: str = Field("en", pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?$")
    """Language of the results page, such as en or zh-CN."""
    start: ArgumentOrValue = 0
    num: ArgumentOrValue = DEFAULT_COUNT


class Arguments(BaseModel):
    """The search query and the range of results."""

    q: QueryText = Field("", description="Search keywords. Google search operators are supported.")
    start: Annotated[int, BeforeValidator(lambda value: value or 0)] = Field(
        0, ge=0, le=1000, description="Number of results to skip."
    )
    num: Annotated[int, BeforeValidator(lambda value: DEFAULT_COUNT if value in (None, "") else value)] = Field(
        DEFAULT_COUNT, gt=0, description="Number of results."
    )


@tool(
    "Google",
    function="google_search",
    params=Params,
    arguments=Arguments,
    defaults={"q": "{sys.query}"},
    needs="q",
    effects="pays",
    description="Search the web with Google by keywords. Returns the title, URL and summary of each result.",
    source="agent/tools/google.py",
    service=SERVICE,
)
async def google(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search once."""
    serpapi = open_service(ctx, SERVICE, params.api_key, error_field="error")
    count = min(arguments.num, MAX_PAGE)
    query = {
        "api_key": serpapi.secret,
        "engine": "google",
        "q": arguments.q,
        "google_domain": "google.com",
        "gl": params.country.lower(),
        "hl": params.language,
        "start": str(arguments.start),
        "num": str(count),
    }
    answer = await serpapi.ask_json(ctx, HttpRequest("GET", f"{serpapi.address}/search", query=query, timeout_s=12.0))
    rows = serpapi.rows(answer, "organic_results", count)
    return build_search_result(rows, _row)


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    content = read_text(row, "about_this_result", "source", "description") or read_text(row, "snippet")
    return read_label(row, "title"), read_label(row, "link"), content, 1.0
