"""Jin10's open platform: ``GET /data-api/…``.

Sources: https://github.com/infiniflow/ragflow ``agent/tools/jin10.py`` (paths, parameters, the fields of symbols and
quotes), public clients of https://open-data-api.jin10.com/data-api/flash (the header ``secret-key``; ``{"status",
"message", "data"}``; short news have ``data.content``).
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "jin10-s3cret"
FLASHES: list[Any] = [
    {"id": "1", "time": "2026-01-01 10:00:00", "type": 0, "data": {"content": "黄金上涨。", "pic": ""}},
    {"id": "2", "time": "2026-01-01 10:01:00", "type": 1, "data": {"pic": "http://e/1.png"}},
]
LISTS: dict[str, list[Any]] = {
    "flash": FLASHES,
    "calendar/data": [{"name": "CPI", "country": "美国", "actual": "3.1", "pub_time": "2026-01-01 21:30"}],
    "calendar/event": [{"event_content": "美联储主席讲话", "country": "美国"}],
    "calendar/holiday": [],
    "symbols": [{"c": "XAUUSD", "e": "OTC", "n": "现货黄金", "t": "GOODS"}],
    "quotes": [{"a": 1, "b": 2, "c": "BTCUSD", "e": "X", "h": 3, "hc": 4, "l": 5, "o": 6, "p": 7, "t": 8}],
    "news": [{"title": "黄金周报", "introduction": "本周黄金上涨。"}],
}


def handle(call: Call) -> Answer:
    if call.headers.get("secret-key") != KEY:
        return Answer({"status": 401, "message": "secret-key error", "data": None}, 401)
    path = call.path.removeprefix("/data-api/")
    if path not in LISTS:
        return Answer({"status": 404, "message": "Not Found"}, 404)
    rows = [] if call.query.get("contain") == "nothing" else LISTS[path]
    return Answer({"status": 200, "message": "OK", "data": rows})


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer({"status": 429, "message": "Too Many Requests"}, 429, {"retry-after": "1"}))
