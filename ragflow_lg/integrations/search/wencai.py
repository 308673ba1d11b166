"""WenCai: financial data from iWenCai, by a question."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.markdown_table import markdown_table
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import open_service
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import NO_REPORT, Query, ReportOutputs, RunContext, build_report, query_argument, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("iWenCai", "wencai", "https://openapi.iwencai.com", "required")
MAX_PAGE = 50
"""Maximum number of rows per request."""

Market = Literal[
    "stock", "zhishu", "fund", "hkstock", "usstock", "threeboard", "conbond", "insurance", "futures", "lccp",
    "foreign_exchange",
]  # fmt: skip

QUESTIONS: dict[Market, str] = {
    "stock": "",
    "zhishu": "指数",
    "fund": "基金",
    "hkstock": "港股",
    "usstock": "美股",
    "threeboard": "新三板",
    "conbond": "可转债",
    "insurance": "保险",
    "futures": "期货",
    "lccp": "理财产品",
    "foreign_exchange": "外汇",
}
"""The word for each market, which is added to a question without it: the interface has no parameter for the market."""


class Params(ComponentParams):
    """Parameters of WenCai."""

    api_key: str | None = ""
    """Key of iWenCai's OpenAPI; defaults to the key in ``[tools.wencai]`` in the settings."""
    top_n: int = Field(10, gt=0, strict=True)
    """Number of rows, at most 50."""
    query_type: Market = "stock"
    """The market."""


@tool(
    "WenCai",
    function="iwencai",
    params=Params,
    arguments=query_argument("A question about stocks or funds, or conditions to select them."),
    outputs=ReportOutputs,
    blank=NO_REPORT,
    effects="reads",
    description="Find stocks, funds and other financial data in China by a question or by conditions.",
    source="agent/tools/wencai.py",
    service=SERVICE,
)
async def wencai(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Ask the OpenAPI of iWenCai. Its website can only be read with its own, closed scripts."""
    service = open_service(ctx, SERVICE, params.api_key, error_field="status_msg")
    market, question = QUESTIONS[params.query_type], arguments.query.strip()
    body: JsonValue = {
        "query": question if market in question else f"{market} {question}",
        "page": "1",
        "limit": str(min(params.top_n, MAX_PAGE)),
        "is_cache": "1",
        "expand_index": "true",
    }
    headers = {
        "Authorization": f"Bearer {service.secret}",
        "X-Claw-Call-Type": "normal",
        "X-Claw-Skill-Id": "ragflow-lg",
        "X-Claw-Skill-Version": "1.0.0",
        "X-Claw-Plugin-Id": "none",
        "X-Claw-Plugin-Version": "none",
        "X-Claw-Trace-Id": f"{ctx.services.ids.run_id()}{ctx.services.ids.run_id()}",
    }
    request = HttpRequest("POST", f"{service.address}/v1/query2data", headers, json=body, timeout_s=12.0)
    answer: dict[str, Any] = await service.ask_json(ctx, request)
    if answer.get("status_code") not in (None, 0, "0"):
        raise ServiceError(service.error_of(answer) or f"iWenCai answered with {str(answer['status_code'])[:40]}.")
    return build_report(markdown_table(service.rows(answer, "datas", params.top_n)))
