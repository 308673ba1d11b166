"""Parameters that every component with a chat model has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ragflow_lg.spec import ComponentParams

__all__ = ["ChatParams", "Number", "WholeNumber", "renamed"]

_FLAGS = {
    "temperature": "temperatureEnabled",
    "top_p": "topPEnabled",
    "presence_penalty": "presencePenaltyEnabled",
    "frequency_penalty": "frequencyPenaltyEnabled",
    "max_tokens": "maxTokensEnabled",
}


def _blank_as_zero(value: Any) -> Any:
    return 0 if value is None or (isinstance(value, str) and not value.strip()) else value


Number = Annotated[float, BeforeValidator(_blank_as_zero)]
"""A number or its text; null and blank text are 0."""

WholeNumber = Annotated[int, BeforeValidator(_blank_as_zero), Field(ge=0)]
"""A whole number from 0, or its text; null and blank text are 0."""


class ChatParams(ComponentParams):
    """The model and its sampling.

    A sampling value counts only where its ``…Enabled`` flag is set; without flags the provider's defaults hold.
    Source: RAGFlow's ``agent/component/llm.py``.
    """

    llm_id: str | None = ""
    """``model@Provider``, ``model@instance@Provider``, or ``""`` for the default model."""
    temperature: Number = 0.0
    top_p: Number = 0.0
    presence_penalty: Number = 0.0
    frequency_penalty: Number = 0.0
    max_tokens: WholeNumber = 0
    temperatureEnabled: Any = None
    topPEnabled: Any = None
    presencePenaltyEnabled: Any = None
    frequencyPenaltyEnabled: Any = None
    maxTokensEnabled: Any = None
    thinking: str | None = ""
    """``enabled`` or ``disabled``, where the endpoint knows it; blank and ``default`` leave it to the model."""

    @property
    def sampling(self) -> dict[str, float | int]:
        """What is sent to the model: a temperature from 0, other values above 0."""
        sent = {name: getattr(self, name) for name, flag in _FLAGS.items() if getattr(self, flag)}
        return {name: value for name, value in sent.items() if value > 0 or (name == "temperature" and value == 0)}

    @property
    def thinking_mode(self) -> str:
        """``thinking``, or ``""`` where it is left to the model."""
        return "" if self.thinking in (None, "default") else self.thinking


def renamed(params: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Give the params with other names in place of these; a name that is set already keeps its value."""
    result = {key: value for key, value in params.items() if key not in names}
    for old, name in names.items():
        if params.get(old) and not result.get(name):
            result[name] = params[old]
    return result
