"""Parameters for all components with a chat model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.component.spec import ComponentParams, OptionalReference, PromptText, Requirement
from ragflow_lg.dsl.value_types import Schema
from ragflow_lg.dsl.variable_references import Template, parse_template
from ragflow_lg.models.prompts import extract_sections
from ragflow_lg.models.structured_answer import find_schema, find_schema_problem

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
"""A number, or text that contains one; null and blank text mean 0."""

WholeNumber = Annotated[int, BeforeValidator(_blank_as_zero), Field(ge=0)]
"""A non-negative integer, or text that contains one; null and blank text mean 0."""


class ChatParams(ComponentParams):
    """The model and its sampling.

    A sampling value is only used if its ``…Enabled`` flag is set; otherwise the provider's default applies. Source:
    RAGFlow's ``agent/component/llm.py``.
    """

    llm_id: str | None = ""
    """``model@Provider``, ``model@instance@Provider``, or ``""`` for the default model."""
    temperature: Number = 0.0
    """Like the next four fields, only used if its flag (temperatureEnabled and so on) is true."""
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
    """``enabled`` or ``disabled``, if the endpoint supports it. If it is blank or ``default``, the model decides."""

    @property
    def requirements(self) -> Sequence[Requirement]:
        """The model, as a requirement of the component."""
        return (Requirement("model", self.llm_id or "", ("llm_id",)),)

    @property
    def sampling(self) -> dict[str, float | int]:
        """The values sent to the model: a temperature of at least 0, and other values above 0."""
        sent = {name: getattr(self, name) for name, flag in _FLAGS.items() if getattr(self, flag)}
        return {name: value for name, value in sent.items() if value > 0 or (name == "temperature" and value == 0)}

    @property
    def thinking_mode(self) -> str:
        """The value of ``thinking``, or ``""`` if the model decides."""
        return "" if self.thinking in (None, "default") else self.thinking


GO_NAMES = {
    "model_id": "llm_id",
    "system_prompt": "sys_prompt",
    "user_prompt": "prompts",
    "visual_files": "visual_files_var",
}
"""The parameter names in RAGFlow's Go port."""

CHAT_UNUSED = frozenset(["llm_filter", "output_structure", "parameter", "showStructuredOutput", "tenant_llm_id"])
"""What RAGFlow's editor stores with a chat model for its own use."""


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _as_prompts(value: Any) -> Any:
    """Convert a text to one user message, and a map to one message."""
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]
    return [value] if isinstance(value, Mapping) else value or []


class Prompt(BaseModel):
    """One message after the history."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    role: Annotated[Literal["user", "assistant", "system"], BeforeValidator(_lower)] = "user"
    content: Template


class PromptedParams(ChatParams):
    """Parameters for the components that send a canvas's prompts to a chat model: LLM and Agent."""

    sys_prompt: Template = Template("", ())
    """The system prompt."""
    prompts: Annotated[list[Prompt], BeforeValidator(_as_prompts)] = Field(
        default_factory=lambda: [Prompt(content=parse_template("{sys.query}"))], min_length=1
    )
    """Messages after the history; a text becomes one user message."""
    message_history_window_size: WholeNumber = 13
    """The number N of history pairs in the request (the last 2N-1 entries before this turn); 0 for none."""
    visual_files_var: OptionalReference = None
    """A value whose images are sent to the model."""
    cite: bool | None = True
    """Whether the model is given citation guidelines once there are sources to cite."""
    length_notice: bool | None = True
    """Whether an answer that was cut off at the model's limit of tokens ends with a notice where it is shown."""
    requires_evidence: bool | None = False
    """Whether an answer without citations is requested a second time, and then causes an error. The answer is shown
    when it is complete."""

    @field_validator("temperature", "top_p", "presence_penalty", "frequency_penalty")
    @classmethod
    def _from_0_to_1(cls, value: float) -> float:
        if not 0 <= value <= 1:
            raise ValueError("should be from 0 to 1")
        return value

    @property
    def json_schema(self) -> dict[str, Any] | None:
        """The schema of the answer, if it is structured."""
        return find_schema(self.outputs)


def structured_output_names(params: PromptedParams) -> Iterable[str]:
    """Return ``structured`` if a schema is declared."""
    return () if params.json_schema is None else ("structured",)


def answer_calls(params: PromptedParams) -> int:
    """Return how many calls one answer takes at most: an answer without citations is requested once more."""
    return 2 if params.requires_evidence else 1


def prompt_texts(params: PromptedParams) -> Iterable[PromptText]:
    """Yield the system prompt, without the sections that replace other prompts, and the prompts after the history."""
    yield PromptText(extract_sections(params.sys_prompt.literal_text)[0], ("sys_prompt",))
    for index, prompt in enumerate(params.prompts):
        yield PromptText(prompt.content.literal_text, ("prompts", index, "content"), is_sent_by_tool=False)


def structured_output_schemas(params: PromptedParams) -> Mapping[str, Schema]:
    """Return the declared schema of ``structured``."""
    return {} if params.json_schema is None else {"structured": {"type": "object", **params.json_schema}}


def lint_schema(params: PromptedParams) -> Iterable[Finding]:
    """Check the declared schema itself."""
    if not params.json_schema:
        return
    try:
        problem = find_schema_problem(params.json_schema)
    except SettingsError as error:  # the extra is missing
        advice = "Install the extra, or remove the schema."
        yield Finding("params-invalid", "error", ("outputs", "structured"), str(error), advice)
        return
    if problem:
        yield Finding(
            "params-invalid",
            "warning",
            ("outputs", "structured"),
            f"This is not a valid JSON schema: {problem}. It is sent to the model unchanged, "
            "and the only check is that the answer is an object.",
            "Fix the schema.",
        )


def schema_differences(params: PromptedParams) -> Iterable[Finding]:
    """Report a schema whose first invalid answer fails the node, while RAGFlow goes on with it."""
    if params.json_schema and not params.max_retries and not params.exception_method:
        yield Finding(
            "differs-structured-checks",
            "warning",
            ("outputs", "structured"),
            "An answer that does not match this schema fails the node, because max_retries is 0; RAGFlow accepts it.",
        )


def rename_params(params: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the params under new names; a new name that is already set keeps its value."""
    result = {key: value for key, value in params.items() if key not in names}
    for old, name in names.items():
        if params.get(old) and not result.get(name):
            result[name] = params[old]
    return result
