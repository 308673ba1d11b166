"""A SearXNG instance: ``GET /search``.

Sources: https://docs.searxng.org/dev/search_api (parameters; 403 for a format that is not enabled),
https://github.com/searxng/searxng ``searx/webutils.py`` (the fields of the JSON response) and
https://docs.searxng.org/admin/searx.limiter (429 without ``Retry-After``).
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub


def _row(number: int) -> dict[str, Any]:
    return {
        "url": f"https://example.org/{number}",
        "title": f"Laos {number}",
        "content": f"Text {number} about Laos.",
        "engine": "duckduckgo",
        "parsed_url": ["https", "example.org", f"/{number}", "", "", ""],
        "engines": ["duckduckgo"],
        "positions": [number],
        "score": 1.0 / (number + 1),
        "category": "general",
        "publishedDate": None,
    }


def handle(call: Call) -> Answer:
    if call.path != "/search":
        return Answer("<h1>Page not found</h1>", 404, kind="text/html")
    if call.query.get("format") != "json" or call.query["q"] == "forbidden":
        return Answer("<!doctype html><title>403 Forbidden</title><h1>Forbidden</h1>", 403, kind="text/html")
    rows = [] if call.query["q"] == "nothing" else [_row(number) for number in range(20)]
    unresponsive = [["google", "Suspended: too many requests"]]
    body = {"query": call.query["q"], "number_of_results": 0, "results": rows, "answers": [], "corrections": []}
    return Answer({**body, "infoboxes": [], "suggestions": [], "unresponsive_engines": unresponsive})


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer("Too Many Requests", 429, kind="text/plain"))
