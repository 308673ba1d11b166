"""TuShare Pro: ``POST /``.

Sources: https://www.tushare.pro/document/1?doc_id=130 (request; ``code``, ``msg`` and ``data`` with ``fields`` and
``items``; 2002 means no permission) and ?doc_id=143 (the interface ``news``: datetime, content and title; at most
1,500 rows).
"""

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "tushare-s3cret"
LIMIT = {"code": 40203, "msg": "抱歉，您每分钟最多访问该接口1次", "data": None}


def handle(call: Call) -> Answer:
    body = call.json
    if body["token"] != KEY:
        return Answer({"request_id": "1", "code": 40101, "msg": "您的token不对，请确认。", "data": None})
    if body["params"]["src"] == "sina":
        return Answer(LIMIT)
    items = [
        ["2026-01-01 10:00:00", "贵州茅台发布公告", "公告"],
        ["2026-01-01 10:01:00", "央行开展逆回购 | 操作", None],
        ["2026-01-01 10:02:00", None, "无内容"],
    ]
    data = {"fields": ["datetime", "content", "title"], "items": items, "has_more": False}
    return Answer({"request_id": "1", "code": 0, "msg": "", "data": data})


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer({"code": 429, "msg": "Too Many Requests"}, 429, {"retry-after": "1"}))
