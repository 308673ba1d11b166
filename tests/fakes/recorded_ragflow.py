"""A server with the answers of a generation of RAGFlow's API, as its source and its SDK have them."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.fakes.http_server import HttpServer, Received, Route

RECORDED = Path(__file__).parents[1] / "fixtures" / "ragflow_api"
GENERATIONS = sorted(file.stem for file in RECORDED.glob("*.json"))


class RecordedRagflow(HttpServer):
    """Answers by method and path; unknown paths get RAGFlow's 404. ``faults`` are sent first, one for each request."""

    def __init__(self, generation: str) -> None:
        super().__init__()
        recorded = json.loads((RECORDED / f"{generation}.json").read_text("utf-8"))
        self.answers: dict[str, Any] = recorded["answers"]
        self.headers: dict[str, str] = recorded.get("headers", {})
        self.missing: dict[str, Any] = recorded.get("missing", {})
        """What is answered about records that do not exist, by the form of their paths."""
        self.has_strict_pages = generation == "1.0"
        self.faults: list[Route] = []
        self.broken_from = 10**9
        """The number of the request from which all fail."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set(self, path: str, data: Any) -> None:
        self.answers[f"GET {path}"] = {"body": {"code": 0, "data": data}}

    def _route(self, request: Received) -> Route:
        if self.faults:
            return self.faults.pop(0)
        if len(self.received) > self.broken_from:
            return Route("", status=500, body="<html>")
        path = unquote(request.path.partition("?")[0])
        unknown: Any = {"status": 404, "body": {"code": 404, "message": f"Not Found: {path}", "data": None}}
        missing: Any = next((body for form, body in self.missing.items() if re.fullmatch(form, path)), unknown)
        answer: Any = self.answers.get(f"{request.method} {path}", missing)
        sizes = [int(size) for size in parse_qs(request.path.partition("?")[2]).get("page_size", ())]
        if self.has_strict_pages and any(not 1 <= size <= 100 for size in sizes):
            answer = {"body": {"code": 101, "message": "page_size must be between 1 and 100"}}
        if "frames" in answer:
            frames = "".join(f"data:{json.dumps(frame)}\n\n" for frame in answer["frames"])
            return Route(
                "", headers={"Content-Type": "text/event-stream", **self.headers}, body=f"{frames}data:[DONE]\n\n"
            )
        return Route(
            "",
            status=answer.get("status", 200),
            headers={"Content-Type": "application/json", **self.headers},
            body=json.dumps(answer["body"]),
            delay_ms=answer.get("delay_ms", 0),
        )
