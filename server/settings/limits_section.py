"""The sections that limit work: of all, and how long forms wait; and what each tenant may use."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ragflow_lg.dsl_compiler.deployment import CanvasLimits
from ragflow_lg.dsl_compiler.source import MAX_BYTES
from ragflow_lg.server.settings.sections import Section
from ragflow_lg.services.services import StateLimits

Count = Annotated[int, Field(ge=0)]
"""0 stands for no limit."""


class TenantSection(Section):
    """``[tenants."NAME"]``: what a tenant may use. ``[tenants."*"]`` is for all others, except ``default``.

    Entries are names, or patterns with ``*``, ``?`` and ``[…]``; ``["*"]`` allows all. Without any, only the tenant
    ``default``, or a server's only tenant, may use what the settings describe.
    """

    models: tuple[str, ...] | None = None
    """Models, by provider, such as ``OpenAI``, or by id, such as ``gpt-4.1-mini@OpenAI``."""
    default_model: str = ""
    """``llm_id`` for nodes that do not specify a model, instead of the general ``default_model``."""
    keys: tuple[str, ...] | None = None
    """What else the settings have a key for, as ``SECTION.NAME``: ``tools.tavily``, ``mcp.tickets``, ``sql.shop``,
    ``email.office``, ``datasets.handbook``, ``memories.customers``, ``canvases.report``, ``http.allow``,
    ``transcription``."""
    runs: Count | None = None
    """Concurrent runs in one process. Default: three quarters of ``[server] max_runs``."""
    tokens_day: Count | None = None
    """Tokens of the turns that begin on one day, which begins at 00:00 UTC. Default: 500 million."""


MAX_TIMEOUT_S = 366 * 24 * 3600

PauseAnswerKind: TypeAlias = Literal["defaults", "cancel"]


class PausesSection(Section):
    """``[pauses]``: what happens to forms that nobody answers. Agents can have values of their own."""

    timeout_s: Annotated[int, Field(ge=0, le=MAX_TIMEOUT_S)] = 0
    """How long a form waits for its answer. 0: for ever, as in RAGFlow."""
    answer: PauseAnswerKind = "defaults"
    """``defaults`` answers the form with the values of its fields, ``cancel`` cancels the turn."""


_CANVAS, _STATE = CanvasLimits(), StateLimits()


class LimitsSection(Section):
    """``[limits]``: limits on the work that canvases, requests and files can cause. See ``docs/limits.md``."""

    workers: Annotated[int, Field(ge=0, le=256)] = 0
    """Number of worker processes. 0 means as many as processors, but at least 2."""
    worker_memory_bytes: Annotated[int, Field(ge=256 * 1024**2)] = 1024**3
    """Maximum memory of a worker process."""
    canvas_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = _CANVAS.canvas_bytes
    """Maximum number of characters in a canvas."""
    state_chars: Annotated[int, Field(gt=0)] = _STATE.state_chars
    """Maximum number of characters in all values of a turn."""
    takeovers: Annotated[int, Field(ge=0, le=100)] = 2
    """How often another server continues a run whose server has died. After that, the run has failed."""

    @property
    def canvas(self) -> CanvasLimits:
        """The limits on the size of a canvas."""
        return CanvasLimits(canvas_bytes=self.canvas_bytes)

    @property
    def state(self) -> StateLimits:
        """The limits on the state of a turn."""
        return StateLimits(self.state_chars)
