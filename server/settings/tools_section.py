"""Sections for external resources that canvases use: tool services, web addresses and MCP servers, with their rules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from ragflow_lg.server.settings.section import KeySection, Section, web_address


class ToolSection(KeySection):
    """``[tools.NAME]``: a service that tools call, such as ``tavily``. NAME is case-insensitive."""

    endpoint: str = ""
    """The service's address, if it is not the default."""

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value.strip() else ""


class HttpSection(Section):
    """``[http]``: limits for every request that a canvas makes."""

    allow: tuple[str, ...] = ()
    """Non-public addresses that canvases can reach; see `ragflow_lg.adapters.http.address_guard`."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_response_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024
    concurrency: Annotated[int, Field(gt=0)] = 32


class McpSection(Section):
    """``[mcp."ID"]``: an MCP server, by the id that canvases use (``mcp_id``)."""

    url: SecretStr = SecretStr("")
    """The server's address. Alternatively, set ``command``."""
    command: str = ""
    """The program to start. ``args`` are passed unchanged, without a shell."""
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """Environment variables, in addition to PATH, HOME and the like."""
    type: Literal["", "stdio", "sse", "streamable-http"] = ""
    """Defaults to ``stdio`` for a command and ``streamable-http`` for a URL."""
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    variables: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """Values for ``$name`` and ``${name}`` in ``url``, ``headers`` and ``env``."""
    variables_env: dict[str, str] = Field(default_factory=dict[str, str])
    """Environment variables that contain such values, by name."""
    allow: tuple[str, ...] | None = None
    """The tools that canvases are allowed to call. Default: all."""
    initialize_timeout_s: Annotated[float, Field(gt=0)] = 5.0
    timeout_s: Annotated[float, Field(gt=0)] = 10.0
    """How long a call may take."""
    max_result_bytes: Annotated[int, Field(gt=0)] = 4 * 1024 * 1024

    @model_validator(mode="after")
    def _has_url_or_command(self) -> McpSection:
        if bool(self.url) == bool(self.command):
            raise ValueError("set either url or command")
        if self.type and (self.type == "stdio") != bool(self.command):
            raise ValueError("type stdio requires command; sse and streamable-http require url")
        return self


class AgentsSection(Section):
    """``[agents]``: rules for agents' tools. For tool names, see `ragflow_lg.services.tool_policies`."""

    allow_tools: tuple[str, ...] | None = None
    """Names and patterns of tools that may be called. Default: all."""
    deny_tools: tuple[str, ...] = ()
    """Names and patterns of tools that may not be called, even if allowed."""
    cache_tools: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict[str, float])
    """How long results are cached, in seconds, by tool name or pattern. Cache only results that depend on nothing but
    parameters and arguments."""
    cache_max_bytes: Annotated[int, Field(gt=0)] = 32 * 1024 * 1024
    guards: tuple[str, ...] = ()
    """Entry points in the group ``ragflow_lg.tool_guards`` that check every call, in order."""
