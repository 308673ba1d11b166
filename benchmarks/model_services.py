"""Services for measured runs: all are real except for the model."""

from __future__ import annotations

from typing import Any

from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.system_services import InlineFiles, RandomIds, SystemClock
from ragflow_lg.services.services import Services


class _Models:
    def __init__(self, model: Any) -> None:
        self._model = model

    def model(self, llm_id: str) -> Any:
        return self._model


def services_of(model: Any = None) -> Services:
    """Return services with this model, or with the demo model if it is None."""
    return Services(_Models(model or DemoChat()), GuardedHttpClient(), InlineFiles(), SystemClock(), RandomIds())
