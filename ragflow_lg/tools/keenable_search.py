"""KeenableSearch: search the web with Keenable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import open_service, read_label, read_text
from ragflow_lg.component.spec import ComponentParams, Requirement, ToolResult, ToolService, key_in_canvas
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Keenable", "keenable", "https://api.keenable.ai", "optional")


class Params(ComponentParams):
    """Parameters of KeenableSearch."""

    api_key: str | None = ""
    """Keenable key; defaults to the key in ``[tools.keenable]`` in the settings."""
    mode: Literal["pro", "realtime"] = "pro"
    """``realtime`` answers faster and needs a key."""
    top_n: int = Field(10, gt=0, strict=True)


class Arguments(BaseModel):
    """The search query and a site."""

    query: QueryText = Field("", description="Search keywords, most important first.")
    site: QueryText = Field("", description="Only return results from this domain, such as example.com.")


def _required_key(params: Params) -> Sequence[Requirement]:
    needs_key = params.mode == "realtime" and not key_in_canvas(params.api_key)
    return (Requirement("key", SERVICE.section),) if needs_key else ()


@tool(
    "KeenableSearch",
    function="keenable_search",
    params=Params,
    arguments=Arguments,
    label="Keenable",
    effects="pays",
    description="Search the web with Keenable by keywords. Returns the title, URL and text of each result.",
    source="agent/tools/keenable.py",
    service=SERVICE,
    requires=_required_key,
)
async def keenable_search(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search once: with a key, or else through the public endpoint."""
    about = SERVICE._replace(key="required") if params.mode == "realtime" else SERVICE
    service = open_service(ctx, about, params.api_key)
    body: dict[str, JsonValue] = {"query": arguments.query, "mode": params.mode}
    if arguments.site:
        body["site"] = arguments.site
    path = "/v1/search" if service.secret else "/v1/search/public"
    headers = {"X-Keenable-Title": "ragflow-lg", **({"X-API-Key": service.secret} if service.secret else {})}
    request = HttpRequest("POST", service.address + path, headers, json=body, timeout_s=12.0)
    rows = service.rows(await service.ask_json(ctx, request), "results", params.top_n)
    return build_search_result(rows, _row)


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    text = read_text(row, "snippet") or read_text(row, "description")
    return read_label(row, "title"), read_label(row, "url"), " ".join(text.split()), 1.0
