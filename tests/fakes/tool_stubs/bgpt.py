"""BGPT's REST API: ``POST /api/mcp-search``.

Sources: https://github.com/crewAIInc/crewAI-tools ``BGPTPaperTool`` and the tool spec of LlamaIndex (request, free
quota of 50 results), RAGFlow ``agent/tools/bgpt.py`` and ``internal/agent/tool/bgpt.go`` (fields of a result,
``error``).
"""

from typing import Any

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "bgpt-s3cret"


def _paper(number: int) -> dict[str, Any]:
    return {
        "title": f"Semaglutide trial {number}",
        "doi": f"10.1000/{number}",
        "url": f"https://doi.org/10.1000/{number}",
        "authors": "A. One, B. Two",
        "journal": "Journal of Trials",
        "year": 2024,
        "abstract": "We tested it.",
        "methods_and_experimental_techniques": "Double blind.",
        "sample_size_and_population_characteristics": "n = 1,961",
        "results_and_conclusions": f"It worked {number} times.",
        "paper_limitations_and_biases": None,
        "how_to_falsify": "Repeat it.",
    }


def handle(call: Call) -> Answer:
    if (call.method, call.path) != ("POST", "/api/mcp-search"):
        return Answer({"error": "Not found"}, 404)
    body = call.json
    if body.get("api_key") not in (None, KEY):
        return Answer({"error": f"Invalid API key {body['api_key']}"}, 401)
    if body["num_results"] > 50 and "api_key" not in body:
        return Answer({"error": "Free tier limit of 50 results reached"}, 402)
    count = 0 if body["query"] == "nothing" else body["num_results"]
    return Answer({"results": [_paper(number) for number in range(count)]})


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer({"error": "Rate limit exceeded"}, 429, {"retry-after": "1"}))
