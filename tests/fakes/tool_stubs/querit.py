"""Querit's API: ``POST /v1/search`` and ``POST /v1/contents``.

Sources: https://www.querit.ai/en/docs/reference/post as used by public clients (Cherry Studio's ``QueritProvider``,
the client ``querit-ai/search-api-webui``): success is ``error_code`` 200, results are in ``results.result`` with
url, page_age, title, snippet and site_name; RAGFlow ``agent/tools/querit.py`` (contents: ``results`` and
``statuses``).
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "querit-s3cret"


def _row(number: int) -> dict[str, Any]:
    return {
        "url": f"https://example.org/{number}",
        "page_age": "2026-01-01T00:00:00Z",
        "title": f"Laos {number}",
        "snippet": f"Text {number} about Laos.",
        "site_name": "Example",
    }


def handle(call: Call) -> Answer:
    if call.headers.get("authorization") != f"Bearer {KEY}":
        return Answer({"error_code": 401, "error_msg": "Invalid API key"}, 401)
    body = call.json
    if call.path == "/v1/contents":
        pages = [url for url in body["urls"] if "nothing" not in url]
        results = [{"url": url, "title": "Laos", "content": f"# Laos\n{body['format']} of {url}"} for url in pages]
        statuses = [{"url": url, "status": "success" if url in pages else "error"} for url in body["urls"]]
        return Answer({"took": "12ms", "results": results, "statuses": statuses})
    if call.path != "/v1/search":
        return Answer({"error_code": 404, "error_msg": "Not found"}, 404)
    rows = [] if body["query"] == "nothing" else [_row(number) for number in range(body["count"])]
    context = {"query": body["query"]}
    return Answer(
        {"took": "9ms", "error_code": 200, "error_msg": "", "query_context": context, "results": {"result": rows}}
    )


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer({"error_code": 429, "error_msg": "Too many requests"}, 429, {"retry-after": "1"}))
