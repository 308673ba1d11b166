"""Wikipedia: search a language edition of Wikipedia."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, Field, field_validator

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.component.service_client import Service, open_service, read_fields, read_number, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

WIKIPEDIA = Service("Wikipedia")
SERVICE = ToolService("Wikipedia", "wikipedia", "https://{lang}.wikipedia.org/w/api.php")

_EDITION = re.compile(r"[a-z]{2,3}(-[a-z]{2,10})*")


class Params(ComponentParams):
    """Parameters of Wikipedia."""

    top_n: int = Field(10, gt=0, le=50, strict=True)
    language: str = "en"
    """Language edition: the subdomain of ``wikipedia.org``."""

    @field_validator("language")
    @classmethod
    def _is_edition(cls, value: str) -> str:
        if not _EDITION.fullmatch(value):
            raise ValueError("must be the code of a language edition, for example en or zh")
        return value


class Arguments(BaseModel):
    """The search query."""

    query: QueryText = Field("", description="Title of an article, or words from it: a person, place, thing or event.")


@tool(
    "Wikipedia",
    function="wikipedia_search",
    params=Params,
    arguments=Arguments,
    timeout_s=60.0,
    effects="reads",
    description="Search Wikipedia by title or keywords. Returns the introductions of matching articles.",
    source="agent/tools/wikipedia.py",
    service=SERVICE,
)
async def wikipedia(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search and read the introductions in one request."""
    url = open_service(ctx, SERVICE).address
    query = {
        "action": "query",
        "generator": "search",
        "format": "json",
        "gsrlimit": str(params.top_n),
        "gsrsearch": arguments.query,
        "prop": "extracts|info",
        "exintro": "1",
        "explaintext": "1",
        "exlimit": "max",
        "inprop": "url",
    }
    headers = {"User-Agent": "ragflow-lg (https://github.com/ragflow-lg)"}
    request = HttpRequest("GET", url.replace("{lang}", params.language), headers, query, timeout_s=60.0)
    rows = _pages(await WIKIPEDIA.ask_json(ctx, request))[: params.top_n]
    return build_search_result(rows, read_fields("title", "fullurl", "extract"))


def _pages(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pages in search order."""
    if message := read_text(answer, "error", "info"):
        raise ServiceError(f"Wikipedia rejected the search: {message[:200]}")
    query: Any = answer.get("query") or {}
    if not isinstance(query, dict):
        raise ServiceError("Wikipedia answered with a 'query' that is not an object.")
    pages = cast("dict[str, Any]", query).get("pages")
    values = list(cast("dict[str, Any]", pages).values()) if isinstance(pages, dict) else pages
    rows = WIKIPEDIA.rows({"pages": values}, "pages")
    return sorted(rows, key=lambda row: read_number(row.get("index"), 0.0))
