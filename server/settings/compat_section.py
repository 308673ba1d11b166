"""The section for RAGFlow's behaviours."""

from __future__ import annotations

from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.server.settings.sections import Section


class CompatSection(Section):
    """``[compat]``: RAGFlow's behaviours, for canvases that do not choose them (``docs/fidelity.md``)."""

    ragflow: bool = False
    """The default of the other settings in this section."""
    jinja_text: bool | None = None
    """Whether values in the Jinja templates of Messages are text."""
    unchecked_answers: bool | None = None
    """Whether any JSON is accepted as a structured answer."""
    unchecked_forms: bool | None = None
    """Whether waiting forms accept any answers."""
    repeat_shown_text: bool | None = None
    """Whether the new answer of a model that failed is appended to the text already shown."""
    skip_unconditional_loops: bool | None = None
    """Whether a Loop without conditions ends before its first round."""
    skip_unread_models: bool | None = None
    """Whether a model is not called if nobody reads its answer."""

    @property
    def compatibility(self) -> Compatibility:
        """The behaviours that apply to canvases that do not choose others."""
        return Compatibility().override({k: v for k, v in self.model_dump().items() if v is not None})
