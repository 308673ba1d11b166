"""GitHub: search repositories."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from ragflow_lg.component.service_client import open_service, read_label, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("GitHub", "github", "https://api.github.com", "optional")
MAX_PAGE = 100
"""GitHub's maximum page size."""


class Params(ComponentParams):
    """Parameters of GitHub."""

    top_n: int = Field(10, gt=0, strict=True)
    """Number of repositories, at most 100."""
    api_key: str | None = ""
    """A token; defaults to the key in ``[tools.github]`` in the settings."""


class Arguments(BaseModel):
    """The search query."""

    query: QueryText = Field(
        "", description="Words from the name or description of a repository. GitHub search qualifiers are supported."
    )


@tool(
    "GitHub",
    function="github_search",
    params=Params,
    arguments=Arguments,
    effects="reads",
    description="Search GitHub repositories. Returns names, URLs and descriptions, most stars first.",
    source="agent/tools/github.py",
    service=SERVICE,
)
async def github(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search once; GitHub's rate limits are higher with a key in the settings."""
    service = open_service(ctx, SERVICE, params.api_key, error_field="message")
    count = min(params.top_n, MAX_PAGE)
    url = f"{service.address}/search/repositories"
    headers = {"Content-Type": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    if service.secret:
        headers["Authorization"] = f"Bearer {service.secret}"
    query = {"q": arguments.query, "sort": "stars", "order": "desc", "per_page": str(count)}
    answer = await service.ask_json(ctx, HttpRequest("GET", url, headers, query, timeout_s=15.0))
    rows = service.rows(answer, "items", count)
    return build_search_result(rows, _row)


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    content = f"{read_text(row, 'description')}\n stars:{read_text(row, 'watchers')}"
    return read_label(row, "name"), read_label(row, "html_url"), content, 1.0
