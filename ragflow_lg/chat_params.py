"""Parameters that every component with a chat model has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ragflow_lg.spec import ComponentParams

__all__ = ["ChatParams", "Number", "WholeNumber", "renamed"]


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

    llm_id: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = ""
    """``model@Provider``, ``model@instance@Provider``, or ``""`` for the default model."""
    temperature: Number = 0.0
    top_p: Number = 0.0
    presence_penalty: Number = 0.0
    frequency_penalty: Number = 0.0
    max_tokens: WholeNumber = 0
    temperature_enabled: Any = Field(None, alias="temperatureEnabled")
    top_p_enabled: Any = Field(None, alias="topPEnabled")
    presence_penalty_enabled: Any = Field(None, alias="presencePenaltyEnabled")
    frequency_penalty_enabled: Any = Field(None, alias="frequencyPenaltyEnabled")
    max_tokens_enabled: Any = Field(None, alias="maxTokensEnabled")
    thinking: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = ""
    """``enabled`` or ``disabled``, where the endpoint knows it; ``""`` and ``default`` leave it to the model."""

    @property
    def sampling(self) -> dict[str, float | int]:
        """What to send to the model: temperatures from 0, all other values above 0."""
        sent: dict[str, float | int] = {}
        if self.temperature_enabled and self.temperature >= 0:
            sent["temperature"] = self.temperature
        for name in ("top_p", "presence_penalty", "frequency_penalty", "max_tokens"):
            if getattr(self, f"{name}_enabled") and (value := getattr(self, name)) > 0:
                sent[name] = value
        return sent


def renamed(params: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Give the params with other names in place of these; a name that is set already keeps its value."""
    result = {key: value for key, value in params.items() if key not in names}
    for old, name in names.items():
        if params.get(old) and not result.get(name):
            result[name] = params[old]
    return result
