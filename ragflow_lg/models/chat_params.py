"""Parameters that every component with a chat model has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.component.spec import ComponentParams, OptionalReference
from ragflow_lg.dsl.variable_references import Template, parse_template
from ragflow_lg.models.structured_answer import find_schema, find_schema_problem

__all__ = [
    "GO_NAMES",
    "ChatParams",
    "Number",
    "Prompt",
    "PromptedParams",
    "WholeNumber",
    "rename_params",
    "lint_schema",
    "structured_output_names",
]

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
    """Like the four below it counts only where its flag (temperatureEnabled and so on) is true."""
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


GO_NAMES = {
    "model_id": "llm_id",
    "system_prompt": "sys_prompt",
    "user_prompt": "prompts",
    "visual_files": "visual_files_var",
}
"""Names that RAGFlow's Go port uses."""


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _as_prompts(value: Any) -> Any:
    """A text is one user message, a map one message."""
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]
    return [value] if isinstance(value, Mapping) else value or []


class Prompt(BaseModel):
    """One message behind the history."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    role: Annotated[Literal["user", "assistant"], BeforeValidator(_lower)] = "user"
    content: Template


def _ask_query() -> list[Prompt]:
    return [Prompt(content=parse_template("{sys.query}"))]


class PromptedParams(ChatParams):
    """Parameters of the components that ask a chat model what the canvas writes: LLM and Agent."""

    sys_prompt: Template = Template("", ())
    """What stands above the conversation."""
    prompts: Annotated[list[Prompt], BeforeValidator(_as_prompts)] = Field(default_factory=_ask_query, min_length=1)
    """Messages behind the history; a text stands for one user message."""
    message_history_window_size: WholeNumber = 13
    """The last 2N-1 entries of the history before this turn go along; 0 for none."""
    visual_files_var: OptionalReference = None
    """Its images go along."""
    cite: bool | None = True
    """Whether the model is told how to cite, once something was found that can be cited."""
    requires_evidence: bool | None = False
    """Whether an answer that cites nothing of what was found is asked for once more, and is an error then. It is shown
    when it is whole."""

    @field_validator("temperature", "top_p", "presence_penalty", "frequency_penalty")
    @classmethod
    def _from_0_to_1(cls, value: float) -> float:
        if not 0 <= value <= 1:
            raise ValueError("should be from 0 to 1")
        return value

    @property
    def json_schema(self) -> dict[str, Any] | None:
        """The schema of the answer, if it is to be structured."""
        return find_schema(self.outputs)


def structured_output_names(params: PromptedParams) -> Iterable[str]:
    """Give ``structured`` where a schema is declared."""
    return () if params.json_schema is None else ("structured",)


def lint_schema(params: PromptedParams) -> Iterable[Finding]:
    """Check the declared schema itself."""
    if params.json_schema and (problem := find_schema_problem(params.json_schema)):
        yield Finding(
            "params-invalid",
            "warning",
            ("outputs", "structured"),
            f"This is not a valid JSON schema: {problem}. The model is shown it as it is; of its answer only whether "
            "it is an object is checked.",
            "Mend the schema.",
        )


def rename_params(params: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Give the params with other names in place of these; a name that is set already keeps its value."""
    result = {key: value for key, value in params.items() if key not in names}
    for old, name in names.items():
        if params.get(old) and not result.get(name):
            result[name] = params[old]
    return result
