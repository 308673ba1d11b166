"""The OpenAPI of iWenCai: ``POST /v1/query2data``.

Sources: public clients of https://openapi.iwencai.com (a Bearer key; query, page, limit, is_cache and expand_index
as text; the headers ``X-Claw-…``; ``datas``, ``code_count``, ``status_code`` 0 and ``status_msg``). Its website
needs the token ``hexin-v``, which closed scripts compute.
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "wencai-s3cret"


def _row(number: int) -> dict[str, Any]:
    return {"股票代码": f"60051{number}.SH", "股票简称": "贵州茅台", "最新价": "1400.00", "最新涨跌幅": 1.2}


def handle(call: Call) -> Answer:
    if call.path != "/v1/query2data" or len(call.headers.get("x-claw-trace-id", "")) != 64:
        return Answer({"status_code": 404, "status_msg": "not found"}, 404)
    if call.headers.get("authorization") != f"Bearer {KEY}":
        return Answer({"status_code": 401, "status_msg": "invalid api key"}, 401)
    body = call.json
    if "额度" in body["query"]:
        return Answer({"status_code": -2, "status_msg": "今日调用次数已用完", "datas": []})
    rows = [] if "nothing" in body["query"] else [_row(number) for number in range(int(body["limit"]))]
    return Answer({"status_code": 0, "status_msg": "success", "datas": rows, "code_count": len(rows)})


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer({"status_code": 429, "status_msg": "too many"}, 429, {"retry-after": "1"}))
