"""East Money's news search: ``GET /search/jsonp``, which the package akshare reads.

Sources: https://github.com/akfamily/akshare ``akshare/news/news_stock.py`` (``stock_news_em``) and RAGFlow
``internal/agent/tool/akshare.go`` and its test (request and response).
"""

import json
from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub


def _article(number: int) -> dict[str, Any]:
    return {
        "code": f"20260101{number:04}",
        "title": f"<em>贵州茅台</em>新闻{number}",
        "content": f"\u3000内容{number}\r\n更多",
        "date": "2026-01-01 10:00:00",
        "mediaName": "证券时报",
        "image": "",
    }


def handle(call: Call) -> Answer:
    if call.path != "/search/jsonp" or "eastmoney.com" not in call.headers.get("referer", ""):
        return Answer("Forbidden", 403, kind="text/plain")
    asked = json.loads(call.query["param"])
    options = asked["param"]["cmsArticleWebOld"]
    count = 0 if asked["keyword"] == "nothing" else options["pageSize"]
    articles = [_article(number) for number in range(count)]
    body = {"code": 0, "msg": "OK", "hitsTotal": 200, "result": {"cmsArticleWebOld": articles}}
    return Answer(f"{call.query['cb']}({json.dumps(body, ensure_ascii=False)})", kind="text/javascript;charset=UTF-8")


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer("Too Many Requests", 429, {"retry-after": "1"}, "text/plain"))
