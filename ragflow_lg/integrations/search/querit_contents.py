"""QueritContents: read web pages with Querit."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.service_client import MAX_PAGES_BYTES, open_service
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import RunContext, split_list, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Querit", "querit", "https://api.querit.ai", "required")
MIN_REQUEST_S = 15.0


class Params(ComponentParams):
    """Parameters of QueritContents."""

    api_key: str | None = ""
    """Querit key; defaults to the key in ``[tools.querit]`` in the settings."""


def _is_page(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError("must be a complete address that begins with http:// or https://")
    return url


class Arguments(BaseModel):
    """The pages to read and their format."""

    urls: Annotated[list[Annotated[str, AfterValidator(_is_page)]], BeforeValidator(split_list)] = Field(
        default_factory=list[str], max_length=10, description="URLs of the pages to read, at most 10."
    )
    format: Literal["text", "markdown", "html"] = Field("markdown", description="Format of the returned text.")
    crawl_timeout: int = Field(10, ge=1, le=60, description="Maximum number of seconds for each page.")
    extras_meta: bool = Field(False, description="Whether to return the metadata of each page.")


class Outputs(ComponentOutputs):
    """The response as the output ``json``."""


@tool(
    "QueritContents",
    function="querit_contents",
    params=Params,
    arguments=Arguments,
    outputs=Outputs,
    output_names=lambda params: ("json",),
    defaults={},
    needs="urls",
    blank=ToolResult({}, {"json": {}}),
    label="Querit contents",
    timeout_s=70.0,
    effects="pays",
    description="Read web pages by their URLs with Querit. Returns the text of each page.",
    source="agent/tools/querit.py",
    service=SERVICE,
)
async def querit_contents(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Read all pages in one request. Its result is Querit's complete response."""
    service = open_service(ctx, SERVICE, params.api_key, error_field="error_msg")
    body: JsonValue = {
        "urls": [*arguments.urls],
        "format": arguments.format,
        "crawlTimeout": arguments.crawl_timeout,
        "extrasMeta": arguments.extras_meta,
    }
    headers = {"Accept": "application/json", "Authorization": f"Bearer {service.secret}"}
    timeout_s = max(MIN_REQUEST_S, arguments.crawl_timeout + 5.0)
    request = HttpRequest(
        "POST",
        f"{service.address}/v1/contents",
        headers,
        json=body,
        timeout_s=timeout_s,
        max_response_bytes=MAX_PAGES_BYTES,
    )
    answer = await service.ask_json(ctx, request)
    for name in ("results", "statuses"):
        service.rows({name: [], **answer}, name)  # raises unless it is a list of objects
    if not answer.keys() & {"results", "statuses"}:
        raise ServiceError(service.error_of(answer) or "Querit answered without 'results' and 'statuses'.")
    try:
        complete = to_json(answer)
    except ComponentError as error:
        raise ServiceError(f"Querit answered with an unusable response: {error}") from None
    return ToolResult(complete, {"json": complete})
