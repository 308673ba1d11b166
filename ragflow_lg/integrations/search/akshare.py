"""AkShare: news about a Chinese stock from East Money."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from pydantic import Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import open_service, read_label, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import Query, RunContext, TextOutputs, build_text_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("East Money", "akshare", "https://search-api-web.eastmoney.com")
CALLBACK = "ragflow_lg"
MAX_PAGE = 100
"""Maximum number of articles per request."""

_MARKS = re.compile(r"</?em>")
_CODE = re.compile(r"[A-Za-z0-9]{1,40}")


class Params(ComponentParams):
    """Parameters of AkShare."""

    top_n: int = Field(10, gt=0, strict=True)
    """Number of articles, at most 100."""


@tool(
    "AkShare",
    function="akshare_stock_news",
    params=Params,
    arguments=query_argument("The code of a stock at a Chinese exchange, such as 600519."),
    outputs=TextOutputs,
    effects="reads",
    description="Find the latest news about a stock at a Chinese exchange, from East Money.",
    source="agent/tools/akshare.py",
    service=SERVICE,
)
async def akshare(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Request the news that the package ``akshare`` requests, without the package."""
    service = open_service(ctx, SERVICE)
    count = min(params.top_n, MAX_PAGE)
    query = {"cb": CALLBACK, "param": json.dumps(_search(arguments.query, count), ensure_ascii=False)}
    headers = {"Referer": "https://so.eastmoney.com/"}
    request = HttpRequest("GET", f"{service.address}/search/jsonp", headers, query, timeout_s=12.0)
    response = await service.ask(ctx, request)
    inner = response.text.strip().removeprefix(CALLBACK).strip().removesuffix(";").strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        raise ServiceError(f"East Money answered without JSONP: {' '.join(response.text[:2000].split())[:200]}")
    answer = await service.read_json(ctx, response._replace(text=inner[1:-1]))
    result: Any = answer.get("result") or {}
    if not isinstance(result, dict):
        raise ServiceError("East Money answered with a 'result' that is not an object.")
    rows = service.rows(cast("dict[str, Any]", result), "cmsArticleWebOld", count)
    return build_text_result("\n\n".join(map(_article, rows)))


def _search(keyword: str, count: int) -> JsonValue:
    """Return the search parameters of East Money's news page."""
    articles: JsonValue = {
        "searchScope": "default",
        "sort": "default",
        "pageIndex": 1,
        "pageSize": count,
        "preTag": "<em>",
        "postTag": "</em>",
    }
    return {
        "uid": "",
        "keyword": keyword,
        "type": ["cmsArticleWebOld"],
        "client": "web",
        "clientType": "web",
        "clientVersion": "curr",
        "param": {"cmsArticleWebOld": articles},
    }


def _article(row: dict[str, Any]) -> str:
    code = read_label(row, "code")
    link = f"http://finance.eastmoney.com/a/{code}.html" if _CODE.fullmatch(code) else ""
    return (
        f'<a href="{link}">{_plain(read_label(row, "title"))}</a>\n 新闻内容: {_plain(read_text(row, "content"))} '
        f"\n发布时间:{read_label(row, 'date')} \n文章来源: {read_label(row, 'mediaName')}"
    )


def _plain(text: str) -> str:
    return _MARKS.sub("", text).replace("\u3000", "").replace("\r\n", " ")
