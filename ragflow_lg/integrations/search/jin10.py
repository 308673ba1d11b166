"""Jin10: news, calendars and quotes of the Jin10 open platform."""

from __future__ import annotations

from typing import Any, Literal

from ragflow_lg.base.markdown_table import markdown_table
from ragflow_lg.component.service_client import Service, open_service, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import Query, RunContext, TextOutputs, build_text_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("Jin10", "jin10", "https://open-data-api.jin10.com", "required", "secret_key")

SYMBOL_COLUMNS = {"c": "Commodity Code", "e": "Stock Exchange", "n": "Commodity Name", "t": "Commodity Type"}
QUOTE_COLUMNS = {
    "a": "Selling Price",
    "b": "Buying Price",
    "c": "Commodity Code",
    "e": "Stock Exchange",
    "h": "Highest Price",
    "hc": "Yesterday’s Closing Price",
    "l": "Lowest Price",
    "o": "Opening Price",
    "p": "Latest Price",
    "t": "Market Quote Time",
}


class Params(ComponentParams):
    """Parameters of Jin10."""

    secret_key: str | None = ""
    """Key of the open platform; defaults to the key in ``[tools.jin10]`` in the settings."""
    type: Literal["flash", "calendar", "symbols", "news"] = "flash"
    """Short news, a calendar, quotes or articles."""
    flash_type: Literal["1", "2", "3", "4", "5"] = "1"
    """Short news about: 1 markets, 2 futures, 3 the US and Hong Kong, 4 A-shares, 5 commodities and currencies."""
    calendar_type: Literal["cj", "qh", "hk", "us"] = "cj"
    """The calendar: ``cj`` economy, ``qh`` futures, ``hk`` Hong Kong, ``us`` the US."""
    calendar_datatype: Literal["data", "event", "holiday"] = "data"
    symbols_type: Literal["GOODS", "FOREX", "FUTURE", "CRYPTO"] = "GOODS"
    symbols_datatype: Literal["symbols", "quotes"] = "symbols"
    contain: str = ""
    """For short news and articles: only those that contain this word; the default is the query."""
    filter: str = ""
    """For short news and articles: only those that do not contain this word."""


@tool(
    "Jin10",
    function="jin10_market_data",
    params=Params,
    arguments=query_argument("A word that the news contain, or for quotes codes such as BTCUSD, separated by commas."),
    outputs=TextOutputs,
    timeout_s=15.0,
    effects="reads",
    description="Get financial news, economic calendars or quotes from Jin10.",
    source="agent/tools/jin10.py",
    service=SERVICE,
)
async def jin10(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Request one list."""
    service = open_service(ctx, SERVICE, params.secret_key, error_field="message")
    path, query = _target(params, arguments)
    url = f"{service.address}/data-api/{path}"
    query = {name: value for name, value in query.items() if value}
    request = HttpRequest("GET", url, {"secret-key": service.secret}, query, timeout_s=15.0)
    return build_text_result(_text(service, await service.ask_json(ctx, request), params))


def _target(params: Params, arguments: Query) -> tuple[str, dict[str, str]]:
    words = {"contain": params.contain or arguments.query.strip(), "filter": params.filter}
    match params.type:
        case "flash":
            return "flash", {"category": params.flash_type, **words}
        case "calendar":
            return f"calendar/{params.calendar_datatype}", {"category": params.calendar_type}
        case "symbols":
            codes = arguments.query.strip() if params.symbols_datatype == "quotes" else ""
            return params.symbols_datatype, {"type": params.symbols_type, "codes": codes}
        case "news":
            return "news", words


def _text(service: Service, answer: dict[str, Any], params: Params) -> str:
    rows = service.rows(answer, "data")
    if params.type == "flash":
        return "\n\n".join(text for row in rows if (text := read_text(row, "data", "content")))
    if params.type == "symbols":
        names = SYMBOL_COLUMNS if params.symbols_datatype == "symbols" else QUOTE_COLUMNS
        rows = [{names.get(name, name): value for name, value in row.items()} for row in rows]
    return markdown_table(rows)
