"""Sections of what canvases reach outside: services of tools, web addresses, MCP servers, and the rules for it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from ragflow_lg.server.settings.section import KeySection, Section, web_address

__all__ = ["AgentsSection", "HttpSection", "McpSection", "ToolSection"]


class ToolSection(KeySection):
    """``[tools.NAME]``: a service that tools ask, ``tavily`` for example, in any case."""

    endpoint: str = ""
    """Its address, if it is not the usual one."""

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value.strip() else ""


class HttpSection(Section):
    """``[http]``: limits of every request that a canvas causes."""

    allow: tuple[str, ...] = ()
    """What may be reached although it is not on the public internet; see `ragflow_lg.adapters.http.address_guard`."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_response_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024
    concurrency: Annotated[int, Field(gt=0)] = 32


class McpSection(Section):
    """``[mcp."ID"]``: a server of tools, by the id that canvases know it by (``mcp_id``)."""

    url: SecretStr = SecretStr("")
    """Where it is; or else ``command``."""
    command: str = ""
    """The program to start; it is given ``args`` as they are, no shell reads them."""
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """What its environment has beside PATH, HOME and the like."""
    type: Literal["", "stdio", "sse", "streamable-http"] = ""
    """``stdio`` for a command, ``streamable-http`` for a URL where it is not set."""
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    variables: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """What ``$name`` and ``${name}`` in ``url``, ``headers`` and ``env`` stand for."""
    variables_env: dict[str, str] = Field(default_factory=dict[str, str])
    """Environment variables that hold values of variables, by the name of these."""
    allow: tuple[str, ...] | None = None
    """The tools that canvases may call; all where it is not set."""
    initialize_timeout_s: Annotated[float, Field(gt=0)] = 5.0
    timeout_s: Annotated[float, Field(gt=0)] = 10.0
    """How long a call may take."""
    max_result_bytes: Annotated[int, Field(gt=0)] = 4 * 1024 * 1024

    @model_validator(mode="after")
    def _has_one_way(self) -> McpSection:
        if bool(self.url) == bool(self.command):
            raise ValueError("set either url or command")
        if self.type and (self.type == "stdio") != bool(self.command):
            raise ValueError("type stdio goes with command, sse and streamable-http with url")
        return self


class AgentsSection(Section):
    """``[agents]``: what agents may do with tools. Names of tools are those of `ragflow_lg.services.tool_policies`."""

    allow_tools: tuple[str, ...] | None = None
    """Names and patterns of the tools that may be called; none for all."""
    deny_tools: tuple[str, ...] = ()
    """Names and patterns of those that may not, whatever is allowed."""
    cache_tools: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict[str, float])
    """How long results are remembered, in seconds, by name or pattern of the tool. Only results that follow from
    parameters and arguments alone should be."""
    cache_max_bytes: Annotated[int, Field(gt=0)] = 32 * 1024 * 1024
    guards: tuple[str, ...] = ()
    """Entry points of the group ``ragflow_lg.tool_guards`` that look at every call, in order."""
