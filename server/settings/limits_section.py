"""The sections that limit work: of all, of each tenant, and how long forms wait; and what each tenant may use."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ragflow_lg.dsl_compiler.deployment import CanvasLimits
from ragflow_lg.dsl_compiler.source import MAX_BYTES
from ragflow_lg.server.settings.sections import Section
from ragflow_lg.services.services import StateLimits

Count = Annotated[int, Field(ge=0)]
"""0 stands for no limit."""


class PageQuotasSection(Section):
    """``[quotas.pages]``: quotas of each key of embedded pages, within those of its tenant."""

    runs: Count = 20
    """Concurrent runs in one process."""
    turns_day: Count = 10_000
    tokens_day: Count = 10_000_000
    files: Count = 1_000
    file_bytes: Count = 256 * 1024**2
    visitor_files: Count = 100
    """Files of one visitor."""
    visitor_file_bytes: Count = 32 * 1024**2


class TenantQuotasSection(Section):
    """``[quotas.tenants."NAME"]``: a tenant's own quotas, instead of those in ``[quotas]``."""

    runs: Count | None = None
    turns_day: Count | None = None
    tokens_day: Count | None = None
    cost_day: Annotated[float, Field(ge=0)] | None = None
    agents: Count | None = None
    versions: Count | None = None
    sessions: Count | None = None
    files: Count | None = None
    file_bytes: Count | None = None
    checkpoint_bytes: Count | None = None
    schedules: Count | None = None


class QuotasSection(Section):
    """``[quotas]``: what each tenant may use; 0 for no limit. Days begin at 00:00 UTC.

    Concurrent runs are limited by ``[server] max_runs_tenant``, files by ``max_files`` and ``max_files_bytes``, unless
    the tenant has quotas of its own for them.
    """

    turns_day: Count = 200_000
    """Turns that begin on one day. A continued or repeated turn counts again."""
    tokens_day: Count = 500_000_000
    """Tokens of the turns that begin on one day. No turn begins after they are used up."""
    cost_day: Annotated[float, Field(ge=0)] = 0.0
    """The cost of these turns according to the prices in ``[models]``."""
    agents: Count = 10_000
    versions: Count = 50_000
    """Versions of all agents, including drafts."""
    sessions: Count = 1_000_000
    checkpoint_bytes: Count = 50 * 1024**3
    """Bytes that the turns of all sessions have stored in the session store, before compression."""
    schedules: Count = 1_000
    """Schedules of all agents."""
    pages: PageQuotasSection = PageQuotasSection()
    tenants: dict[str, TenantQuotasSection] = Field(default_factory=dict[str, TenantQuotasSection])


class TenantSection(Section):
    """``[tenants."NAME"]``: what a tenant may use. ``[tenants."*"]`` applies to tenants without a section.

    Entries are names, or patterns with ``*``, ``?`` and ``[…]``; ``["*"]`` allows all. Without any section, only the
    tenant ``default``, or a server's only tenant, may use what the settings describe.
    """

    providers: tuple[str, ...] = ()
    """Providers of models: the names of ``[providers.NAME]``, or ``OpenAI`` for the key in the environment."""
    default_model: str = ""
    """``llm_id`` for nodes that do not specify a model, instead of the general ``default_model``."""
    rerankers: tuple[str, ...] = ()
    """Rerank models, by the ``rerank_id`` that canvases use."""
    speech: tuple[str, ...] = ()
    """Models that speak: the ids of ``[speech.ID]``."""
    transcription: bool = False
    """Whether the tenant's audio files are transcribed."""
    datasets: tuple[str, ...] = ()
    """Datasets, by name or id."""
    memories: tuple[str, ...] = ()
    """Memories, by id. The tenant has its own part of each."""
    mcp: tuple[str, ...] = ()
    """MCP servers, by id. The tenant has its own sessions with them."""
    sql: tuple[str, ...] = ()
    """Databases under ``[sql.connections]``, by name."""
    email: tuple[str, ...] = ()
    """Mail servers under ``[email.servers]``, by name."""
    tools: tuple[str, ...] = ()
    """Sections ``[tools.NAME]`` whose key and endpoint the tenant's tools use."""
    canvases: tuple[str, ...] = ()
    """Canvases under ``[canvases]``."""
    http_allow: tuple[str, ...] = ()
    """Non-public addresses that the tenant's canvases can reach, instead of ``[http] allow``."""


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
    worker_queue: Annotated[int, Field(gt=0)] = 1_000
    """How many of a tenant's tasks may wait for a worker process."""
    canvas_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = _CANVAS.canvas_bytes
    """Maximum number of characters in a canvas."""
    canvas_components: Annotated[int, Field(gt=0)] = _CANVAS.canvas_components
    """Maximum number of components in a canvas."""
    canvas_list: Annotated[int, Field(gt=0)] = _CANVAS.canvas_list
    """Maximum number of entries in one list of a canvas's parameters."""
    canvas_entries: Annotated[int, Field(gt=0)] = _CANVAS.canvas_entries
    """Maximum number of list entries and map keys in all parameters of a canvas."""
    canvas_chars: Annotated[int, Field(gt=0)] = _CANVAS.canvas_chars
    """Maximum number of characters in the texts of all parameters of a canvas."""
    canvas_references: Annotated[int, Field(gt=0)] = _CANVAS.canvas_references
    """Maximum number of references, counted as opening braces, in all parameters of a canvas."""
    state_chars: Annotated[int, Field(gt=0)] = _STATE.state_chars
    """Maximum number of characters in all values of a turn."""
    state_entries: Annotated[int, Field(gt=0)] = _STATE.state_entries
    """Maximum number of list entries and map keys in all values of a turn."""
    takeovers: Annotated[int, Field(ge=0, le=100)] = 2
    """How often another server continues a run whose server has died. After that, the run has failed."""

    @property
    def canvas(self) -> CanvasLimits:
        """The limits on the size of a canvas."""
        return CanvasLimits(**{name: getattr(self, name) for name in CanvasLimits.__struct_fields__})

    @property
    def state(self) -> StateLimits:
        """The limits on the state of a turn."""
        return StateLimits(self.state_chars, self.state_entries)
