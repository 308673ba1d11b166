"""The sections that name what each tenant may use."""

from __future__ import annotations

from ragflow_lg.server.settings.sections import Section


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
