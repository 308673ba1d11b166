"""Wikipedia: searches an edition of Wikipedia."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field, field_validator

from ragflow_lg.references import chunks_of_rows
from ragflow_lg.services import HttpRequest
from ragflow_lg.spec import ComponentParams, ToolResult
from ragflow_lg.tool import cited, json_of, tool

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["wikipedia"]

_EDITION = re.compile(r"[a-z]{2,3}(-[a-z]{2,10})*")


class Params(ComponentParams):
    """Parameters of Wikipedia."""

    top_n: int = Field(10, gt=0, le=50, strict=True)
    language: str = "en"
    """The edition: the part of its address before ``wikipedia.org``."""

    @field_validator("language")
    @classmethod
    def _is_edition(cls, value: str) -> str:
        if not _EDITION.fullmatch(value):
            raise ValueError("should be the code of an edition, for example en or zh")
        return value


class Arguments(BaseModel):
    """What to look for."""

    query: str = Field("", description="A title, or words of one: of a person, a place, a thing, an event.")


@tool(
    "Wikipedia",
    function="wikipedia_search",
    params=Params,
    arguments=Arguments,
    timeout_s=60.0,
    description="Search Wikipedia. Give a title or words of one; the beginnings of the articles come back.",
    source="agent/tools/wikipedia.py",
)
async def wikipedia(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search and read the introductions in one request."""
    if not arguments.query.strip():
        return ToolResult("", {"formalized_content": ""})
    url = ctx.services.tools.endpoint("wikipedia", "https://{lang}.wikipedia.org/w/api.php")
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
    answer = json_of(await ctx.services.http.send(request), "Wikipedia")
    held = cast("dict[str, dict[str, Any]]", cast("dict[str, Any]", answer.get("query") or {}).get("pages") or {})
    pages = sorted(held.values(), key=lambda page: int(page.get("index") or 0))
    rows = ((str(p.get("title") or ""), str(p.get("fullurl") or ""), str(p.get("extract") or ""), 1.0) for p in pages)
    return cited(chunks_of_rows(rows), pages)
