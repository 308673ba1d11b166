"""The services of what is measured: all real but the model."""

from __future__ import annotations

from typing import Any

from ragflow_lg.adapters.demo_chat import DemoChat
from ragflow_lg.adapters.files import InlineFiles
from ragflow_lg.adapters.http_client import GuardedHttpClient
from ragflow_lg.adapters.system import RandomIds, SystemClock
from ragflow_lg.services import Services

__all__ = ["services_of"]


class _Models:
    def __init__(self, model: Any) -> None:
        self._model = model

    def model(self, llm_id: str) -> Any:
        return self._model


def services_of(model: Any = None) -> Services:
    """Give services with a model of one's own, else the demo model."""
    return Services(_Models(model or DemoChat()), GuardedHttpClient(), InlineFiles(), SystemClock(), RandomIds())
