"""TavilyExtract: read web pages with Tavily."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, Field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import MAX_PAGES_BYTES, open_service
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import RunContext, split_list, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Tavily", "tavily", "https://api.tavily.com", "required")
REQUEST_S = 120.0

Depth = Literal["basic", "advanced"]
Format = Literal["markdown", "text"]


class Params(ComponentParams):
    """Parameters of TavilyExtract."""

    api_key: str | None = ""
    """Tavily key; defaults to the key in ``[tools.tavily]`` in the settings."""
    delay_after_error: Annotated[float, Field(ge=0, le=3600)] | None = 0.0
    extract_depth: Depth = "basic"
    format: Format = "markdown"


class Arguments(BaseModel):
    """The pages to read and their format."""

    urls: Annotated[list[str], BeforeValidator(split_list)] = Field(
        default_factory=list[str], description="URLs of the pages to read."
    )
    extract_depth: Depth = Field(
        "basic", description="'advanced' also reads tables and embedded content but is slower."
    )
    format: Format = Field("markdown", description="Format of the returned text.")


class Outputs(ComponentOutputs):
    """The pages as the output ``json``."""


@tool(
    "TavilyExtract",
    unused=frozenset(["include_images"]),
    function="tavily_extract",
    params=Params,
    arguments=Arguments,
    outputs=Outputs,
    output_names=lambda params: ("json",),
    defaults={},
    needs="urls",
    blank=ToolResult([], {"json": []}),
    label="Tavily",
    timeout_s=600.0,
    effects="pays",
    description="Read web pages by their URLs. Returns the text of each page.",
    source="agent/tools/tavily.py",
    service=SERVICE,
)
async def tavily_extract(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Read all pages in one request. Pages that cannot be read are missing from the result."""
    tavily = open_service(ctx, SERVICE, params.api_key)
    body: dict[str, JsonValue] = {
        "urls": [*arguments.urls],
        "extract_depth": arguments.extract_depth,
        "format": arguments.format,
        "include_images": False,
    }
    url = f"{tavily.address}/extract"
    headers = {"Authorization": f"Bearer {tavily.secret}"}
    request = HttpRequest("POST", url, headers, json=body, timeout_s=REQUEST_S, max_response_bytes=MAX_PAGES_BYTES)
    answer = await tavily.ask_json(ctx, request)
    pages = cast("JsonValue", tavily.rows(answer, "results"))
    return ToolResult(pages, {"json": pages})
