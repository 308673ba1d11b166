"""Yahoo Finance: search, prices, summaries, and series of statements.

Sources: https://github.com/ranaroussi/yfinance (``data.py``: cookie of fc.yahoo.com with status 404, token of
``/v1/test/getcrumb``; ``scrapers/fundamentals.py``: series of statements; ``const.py``: modules), RAGFlow
``internal/agent/tool/yahoo_finance.go`` (addresses). A wrong token is answered with 401 "Invalid Crumb".
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

COOKIE = "A3=d=AQAB; Expires=Thu, 01 Jan 2027 00:00:00 GMT; Max-Age=31557600; Domain=.yahoo.com; Path=/; Secure"
CRUMB = "aB3.dE/fg"
COMPANIES = {"apple": "AAPL", "aapl": "AAPL", "msft": "MSFT"}
NEWS = {
    "uuid": "1",
    "title": "Apple | rises",
    "publisher": "Reuters",
    "link": "https://e/n",
    "providerPublishTime": 1767225600,
}
SUMMARY: dict[str, Any] = {
    "price": {
        "maxAge": 1,
        "regularMarketPrice": {"raw": 190.5, "fmt": "190.50"},
        "currency": "USD",
        "preMarketPrice": {},
    },
    "assetProfile": {"industry": "Consumer Electronics", "fullTimeEmployees": 161000, "maxAge": 86400},
    "calendarEvents": {"maxAge": 1, "exDividendDate": 1767225600, "earnings": {"earningsAverage": 2.1}},
}


def _error(code: str, description: str, status: int, field: str = "finance") -> Answer:
    return Answer({field: {"result": None, "error": {"code": code, "description": description}}}, status)


def _series(call: Call) -> Answer:
    rows: list[Any] = []
    for name in call.query["type"].split(","):
        date = "2025-09-30" if name.startswith("annual") else "2025-12-31"
        value = {"asOfDate": date, "periodType": "12M", "reportedValue": {"raw": 1000.5, "fmt": "1K"}}
        row = {"meta": {"symbol": ["AAPL"], "type": [name]}}
        rows.append({**row, "timestamp": [1], name: [None, value]} if name.endswith("s") else row)
    return Answer({"timeseries": {"result": rows, "error": None}})


def handle(call: Call) -> Answer:
    path = call.path
    if path == "/":
        return Answer("Not Found", 404, {"set-cookie": COOKIE}, "text/html")
    if path == "/v1/finance/search":
        symbol = COMPANIES.get(call.query["q"].lower())
        quotes = (
            [{"symbol": "APLE"}, {"symbol": symbol}] if symbol and call.query["q"].isupper() else [{"symbol": symbol}]
        )
        return Answer({"quotes": quotes if symbol else [], "news": [NEWS] if symbol else [], "count": 1})
    if path == "/v1/test/getcrumb":
        return Answer(CRUMB, kind="text/plain") if call.headers.get("cookie") else Answer("", kind="text/plain")
    symbol = path.rsplit("/", 1)[1]
    if symbol not in COMPANIES.values():
        return _error("Not Found", f"Quote not found for symbol: {symbol}", 404, "quoteSummary")
    if path.startswith("/v8/finance/chart/"):
        quote = {"open": [1.0], "high": [2.0], "low": [0.5], "close": [1.5, None], "volume": [10, None]}
        chart = {"meta": {"symbol": symbol}, "timestamp": [1767225600, 1767312000], "indicators": {"quote": [quote]}}
        return Answer({"chart": {"result": [chart], "error": None}})
    if path.startswith("/v10/finance/quoteSummary/"):
        if call.query.get("crumb") != CRUMB or call.headers.get("cookie") != "A3=d=AQAB":
            return _error("Unauthorized", "Invalid Crumb", 401)
        modules = {name: SUMMARY[name] for name in call.query["modules"].split(",") if name in SUMMARY}
        return Answer({"quoteSummary": {"result": [modules], "error": None}})
    return _series(call)


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer("Too Many Requests\r\n", 429, kind="text/plain"))
