"""The section for RAGFlow's behaviours."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.server.settings.sections import Section


def _read_choice(value: Any) -> Any:
    """Read a text, as environment variables are. Pydantic would also accept words such as ``yes``."""
    choices = {"true": True, "1": True, "false": False, "0": False}
    if isinstance(value, str) and value.lower() in choices:
        return choices[value.lower()]
    if value is not None and not isinstance(value, bool):
        raise ValueError("should be true or false")
    return value


Choice = Annotated[bool, BeforeValidator(_read_choice)]


class CompatSection(Section):
    """``[compat]``: RAGFlow's behaviours, for canvases that do not choose them (``docs/fidelity.md``)."""

    ragflow: Choice = False
    """The default of the other settings in this section."""
    jinja_text: Choice | None = None
    """Whether values in the Jinja templates of Messages are text."""
    unchecked_answers: Choice | None = None
    """Whether any JSON is accepted as a structured answer."""
    unchecked_forms: Choice | None = None
    """Whether waiting forms accept any answers."""
    repeat_shown_text: Choice | None = None
    """Whether the new answer of a model that failed is appended to the text already shown."""
    skip_unconditional_loops: Choice | None = None
    """Whether a Loop without conditions ends before its first round."""
    skip_unread_models: Choice | None = None
    """Whether a model is not called if nobody reads its answer."""

    @property
    def compatibility(self) -> Compatibility:
        """The behaviours that apply to canvases that do not choose others."""
        return Compatibility().override({k: v for k, v in self.model_dump().items() if v is not None})
