"""Keenable's REST API: ``POST /v1/search`` with a key, ``POST /v1/search/public`` without.

Sources: https://github.com/infiniflow/ragflow ``agent/tools/keenable.py``,
https://haystack.deepset.ai/integrations/keenable/ (keys, limits), the providers of public clients (mcp
``@keenable/mcp``, Mastra's ``createKeenableSearchTool``): ``X-Keenable-Title`` is required without a key, 1,000
requests an hour; a result has url, title, description, snippet, published_at and acquired_at.
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "kn-s3cret"


def _row(number: int) -> dict[str, Any]:
    return {
        "url": f"https://example.org/{number}",
        "title": f"Laos {number}",
        "description": "" if number else "A description.",
        "snippet": f"Text {number}\n  about\tLaos." if number else "",
        "published_at": "2026-01-01",
    }


def handle(call: Call) -> Answer:
    if call.path == "/v1/search/public" and not call.headers.get("x-keenable-title"):
        return Answer({"detail": "X-Keenable-Title is required"}, 400)
    if call.path == "/v1/search" and call.headers.get("x-api-key") != KEY:
        return Answer({"detail": "Invalid API key"}, 401)
    if call.path not in ("/v1/search", "/v1/search/public"):
        return Answer({"detail": "Not Found"}, 404)
    rows = [] if call.json["query"] == "nothing" else [_row(number) for number in range(20)]
    return Answer({"results": rows})


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer({"detail": "Rate limit exceeded"}, 429, {"retry-after": "1"}))
