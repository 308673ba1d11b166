"""The request log of the mock server: JSON lines, without headers and keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.server.devtools.mock_llm.mock_llm_app import Exchange

__all__ = ["RequestLog"]

_SHOWN_CHARS = 200


class RequestLog:
    """A listener that writes a line for every exchange when it ends.

    Only a shortened text of the last user message stands in it, never a header or a body.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._began: dict[int, float] = {}
        self._redactor = Redactor()

    def __call__(self, exchange: Exchange) -> None:
        """Take note of an exchange."""
        if not exchange.end:
            self._began[exchange.number] = time.monotonic()
            return
        elapsed_s = time.monotonic() - self._began.pop(exchange.number, time.monotonic())
        self._write(json.dumps(self._row(exchange, elapsed_s), ensure_ascii=False) + "\n")

    def _row(self, exchange: Exchange, elapsed_s: float) -> dict[str, Any]:
        row: dict[str, Any] = {
            "request": exchange.number,
            "method": exchange.method,
            "path": self._redactor.text(exchange.path),
        }
        if (asked := exchange.asked) is not None:
            user = self._redactor.text(asked.user)
            row |= {
                "model": asked.model,
                "stream": asked.is_stream,
                "tools": list(asked.tools),
                "last_role": asked.last_role,
                "user": user if len(user) <= _SHOWN_CHARS else user[: _SHOWN_CHARS - 1] + "…",
            }
        if exchange.rule:
            row |= {"rule": exchange.rule, "reply": exchange.reply}
        if exchange.problem:
            row["problem"] = self._redactor.text(exchange.problem)
        row |= {"status": exchange.status, "pieces": exchange.pieces, "end": exchange.end}
        return {**row, "elapsed_ms": round(elapsed_s * 1000)}
