"""QueritSearch: search the web with Querit."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, Field

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.service_client import open_service, read_fields
from ragflow_lg.component.spec import ComponentParams, OneOrMany, ToolResult, ToolService
from ragflow_lg.component.tool import NOTHING_FOUND, QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Querit", "querit", "https://api.querit.ai", "required")
TIME_RANGE = r"^(|[dwmy][1-9][0-9]*|\d{4}-\d{2}-\d{2}to\d{4}-\d{2}-\d{2})$"


class Params(ComponentParams):
    """Parameters of QueritSearch."""

    api_key: str | None = ""
    """Querit key; defaults to the key in ``[tools.querit]`` in the settings."""


class Arguments(BaseModel):
    """The search query and its filters."""

    query: QueryText = Field("", description="Search keywords, most important first.")
    count: Annotated[int, BeforeValidator(lambda value: value or 10)] = Field(
        10, gt=0, description="Maximum number of results."
    )
    chunks_per_doc: Annotated[int, BeforeValidator(lambda value: value or 3)] = Field(
        3, ge=1, le=3, description="Number of excerpts per result, from 1 to 3."
    )
    site_include: OneOrMany[str] = Field(default_factory=list[str], description="Only return results from these sites.")
    site_exclude: OneOrMany[str] = Field(default_factory=list[str], description="Exclude results from these sites.")
    time_range: Annotated[str, BeforeValidator(lambda value: value or "")] = Field(
        "", pattern=TIME_RANGE, description="Age of the results, such as d7, w1, m3, y1 or 2025-01-01to2025-02-01."
    )
    country_include: OneOrMany[str] = Field(
        default_factory=list[str], description="Only return results from these countries."
    )
    language_include: OneOrMany[str] = Field(
        default_factory=list[str], description="Only return results in these languages."
    )


@tool(
    "QueritSearch",
    function="querit_search",
    params=Params,
    arguments=Arguments,
    blank=ToolResult("", {**NOTHING_FOUND.outputs, "json": {}}),
    label="Querit",
    effects="pays",
    description="Search the web with Querit by keywords. Returns the title, URL and excerpts of each result.",
    source="agent/tools/querit.py",
    service=SERVICE,
)
async def querit_search(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search once. The output ``json`` is Querit's complete response."""
    service = open_service(ctx, SERVICE, params.api_key, error_field="error_msg")
    body: dict[str, JsonValue] = {
        "query": arguments.query,
        "count": arguments.count,
        "chunksPerDoc": arguments.chunks_per_doc,
    }
    if filters := _filters(arguments):
        body["filters"] = filters
    headers = {"Accept": "application/json", "Authorization": f"Bearer {service.secret}"}
    request = HttpRequest("POST", f"{service.address}/v1/search", headers, json=body, timeout_s=12.0)
    answer = await service.ask_json(ctx, request)
    results: Any = answer.get("results") or {}
    if not isinstance(results, dict):
        raise ServiceError(service.error_of(answer) or "Querit answered with 'results' that are not an object.")
    rows = service.rows({"result": [], **cast("dict[str, Any]", results)}, "result")
    try:
        complete = to_json(answer)
    except ComponentError as error:
        raise ServiceError(f"Querit answered with an unusable response: {error}") from None
    found = build_search_result(rows, read_fields("title", "url", "snippet"))
    return ToolResult(found.value, {**found.outputs, "json": complete}, found.chunks)


def _filters(arguments: Arguments) -> dict[str, JsonValue]:
    """Return the filters that are set."""
    sites: dict[str, JsonValue] = {"include": [*arguments.site_include], "exclude": [*arguments.site_exclude]}
    filters: dict[str, JsonValue] = {"sites": {name: names for name, names in sites.items() if names}}
    if arguments.time_range:
        filters["timeRange"] = {"date": arguments.time_range}
    if arguments.country_include:
        filters["geo"] = {"countries": {"include": [*arguments.country_include]}}
    if arguments.language_include:
        filters["languages"] = {"include": [*arguments.language_include]}
    return {name: value for name, value in filters.items() if value}
