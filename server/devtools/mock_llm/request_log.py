"""The request log of the mock server: JSON Lines without headers and API keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.server.devtools.mock_llm.mock_llm_app import Exchange

__all__ = ["RequestLog"]

_MAX_CHARS = 200


class RequestLog:
    """A listener that writes a line at the end of every exchange.

    The line has a shortened text of the last user message, but no headers or bodies.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._start_times: dict[int, float] = {}
        self._redactor = Redactor()

    def __call__(self, exchange: Exchange) -> None:
        """Record the start of an exchange, or log its end."""
        if not exchange.end:
            self._start_times[exchange.number] = time.monotonic()
            return
        elapsed_s = time.monotonic() - self._start_times.pop(exchange.number, time.monotonic())
        self._write(json.dumps(self._row(exchange, elapsed_s), ensure_ascii=False) + "\n")

    def _row(self, exchange: Exchange, elapsed_s: float) -> dict[str, Any]:
        row: dict[str, Any] = {
            "request": exchange.number,
            "method": exchange.method,
            "path": self._redactor.text(exchange.path),
        }
        if (request := exchange.request) is not None:
            user = self._redactor.text(request.user)
            row |= {
                "model": request.model,
                "stream": request.is_stream,
                "tools": list(request.tools),
                "last_role": request.last_role,
                "user": user if len(user) <= _MAX_CHARS else user[: _MAX_CHARS - 1] + "…",
            }
        if exchange.rule:
            row |= {"rule": exchange.rule, "reply": exchange.reply}
        if exchange.problem:
            row["problem"] = self._redactor.text(exchange.problem)
        row |= {"status": exchange.status, "pieces": exchange.pieces, "end": exchange.end}
        return {**row, "elapsed_ms": round(elapsed_s * 1000)}
