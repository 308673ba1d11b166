"""TuShare: financial news from TuShare Pro."""

from __future__ import annotations

from typing import Any, Literal, cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.markdown_table import markdown_table
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.service_client import MAX_LABEL_CHARS, MAX_ROWS, Service, open_service
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import Query, RunContext, TextOutputs, build_text_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("TuShare", "tushare", "https://api.tushare.pro", "required", "token")


class Params(ComponentParams):
    """Parameters of TuShare."""

    token: str | None = ""
    """TuShare token; defaults to the key in ``[tools.tushare]`` in the settings."""
    src: Literal["sina", "wallstreetcn", "10jqka", "eastmoney", "yuncaijing", "fenghuang", "jinrongjie"] = "eastmoney"
    """Where the news come from."""
    start_date: str = "2024-01-01 09:00:00"
    """Time of the earliest news, as YYYY-MM-DD HH:MM:SS."""
    end_date: str = ""
    """Time of the latest news; the default is now."""
    keyword: str = ""
    """Only return news that contain this word; the default is the query."""


@tool(
    "TuShare",
    function="tushare_news",
    params=Params,
    arguments=query_argument("A word that the news contain, such as the name of a company."),
    outputs=TextOutputs,
    timeout_s=15.0,
    effects="reads",
    description="Find financial news from Chinese websites that contain a word.",
    source="agent/tools/tushare.py",
    service=SERVICE,
)
async def tushare(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Request the news of the period and return those with the keyword as a table."""
    service = open_service(ctx, SERVICE, params.token, error_field="msg")
    period: JsonValue = {
        "src": params.src,
        "start_date": params.start_date,
        "end_date": params.end_date or ctx.services.clock.local_time(),
    }
    body: JsonValue = {"api_name": "news", "token": service.secret, "params": period}
    answer = await service.ask_json(ctx, HttpRequest("POST", service.address, json=body, timeout_s=15.0))
    if answer.get("code") != 0:
        raise ServiceError(service.error_of(answer) or f"TuShare answered with code {str(answer.get('code'))[:40]}.")
    keyword = (params.keyword or arguments.query).strip().lower()
    rows = [row for row in _rows(service, answer) if keyword in to_text(row.get("content")).lower()]
    return build_text_result(markdown_table(rows))


def _rows(service: Service, answer: dict[str, Any]) -> list[dict[str, JsonValue]]:
    """Return the news as maps; TuShare sends a list of names and a list of lists of values."""
    data: Any = answer.get("data") or {}
    table = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    fields, items = table.get("fields"), table.get("items")
    if not isinstance(fields, list) or not isinstance(items, list):
        raise ServiceError("TuShare answered without a table in 'data'.")
    names = [to_text(name)[:MAX_LABEL_CHARS] for name in cast("list[Any]", fields)[:100]]
    values = cast("list[Any]", items)[:MAX_ROWS]
    if not all(isinstance(item, list) for item in values):
        raise ServiceError("TuShare answered with a row that is not a list.")
    return service.rows({"items": [dict(zip(names, item, strict=False)) for item in values]}, "items")
