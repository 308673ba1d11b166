"""Settings of MCP servers, and their section. Reading them imports no HTTP client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from string import Template
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import Section


@dataclass(frozen=True, slots=True)
class McpServerSettings:
    """Settings for one server: a command or a URL. Commands come only from settings, never from a canvas."""

    kind: Literal["stdio", "sse", "streamable-http"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Values of ``$name`` and ``${name}`` in ``url``, ``headers`` and ``env``."""
    allow: tuple[str, ...] | None = None
    """The tools that canvases may call; None allows all."""
    initialize_timeout_s: float = 5.0
    timeout_s: float = 10.0
    max_result_bytes: int = 4 * 1024 * 1024


class McpSection(Section):
    """``[mcp."ID"]``: an MCP server, by the id that canvases use (``mcp_id``)."""

    url: SecretStr = SecretStr("")
    """The server's address. Alternatively, set ``command``."""
    command: str = ""
    """The program to start. ``args`` are passed unchanged, without a shell."""
    args: tuple[str, ...] = ()
    env: dict[str, Secret] = Field(default_factory=dict[str, Secret])
    """Environment variables, in addition to PATH, HOME and the like."""
    type: Literal["", "stdio", "sse", "streamable-http"] = ""
    """Defaults to ``stdio`` for a command and ``streamable-http`` for a URL."""
    headers: dict[str, Secret] = Field(default_factory=dict[str, Secret])
    variables: dict[str, Secret] = Field(default_factory=dict[str, Secret])
    """Values for ``$name`` and ``${name}`` in ``url``, ``headers`` and ``env``: each ``"TEXT"``,
    ``{ env = "VARIABLE" }`` or ``{ file = "PATH" }``."""
    allow: tuple[str, ...] | None = None
    """The tools that canvases are allowed to call. Default: all."""
    timeout_s: Annotated[float, Field(gt=0)] = 10.0
    """How long a call may take."""

    @model_validator(mode="after")
    def _has_url_or_command(self) -> McpSection:
        if bool(self.url) == bool(self.command):
            raise ValueError("set either url or command")
        if self.type and (self.type == "stdio") != bool(self.command):
            raise ValueError("type stdio requires command; sse and streamable-http require url")
        return self

    def secrets(self) -> Iterable[str]:
        """Return everything that may contain a key."""
        server = self.settings()
        return (*server.env.values(), *server.headers.values(), *server.variables.values(), server.url)

    def settings(self) -> McpServerSettings:
        """Return the settings of the server."""
        return McpServerSettings(
            kind=self.type or ("stdio" if self.command else "streamable-http"),
            command=self.command,
            args=self.args,
            env=_reveal(self.env),
            url=self.url.get_secret_value(),
            headers=_reveal(self.headers),
            variables=_reveal(self.variables),
            allow=self.allow,
            timeout_s=self.timeout_s,
        )


McpSections = dict[str, McpSection]


def _reveal(secrets: Mapping[str, Secret]) -> dict[str, str]:
    return {name: secret.read() for name, secret in secrets.items()}


def list_hosts(servers: Mapping[str, McpServerSettings]) -> list[str]:
    """Return the hosts and ports of servers with a URL, as in ``[http] allow``. Invalid URLs are reported by a call."""
    hosts: list[str] = []
    for server in servers.values():
        with suppress(ValueError):
            parts = urlsplit(substitute(server.url, server.variables))
            host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
            port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
            hosts += [f"{host}:{port}"] if host else []
    return hosts


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$name`` and ``${name}`` with variables; unknown names stay unchanged.

    >>> substitute("Bearer ${token} $other", {"token": "abc"})
    'Bearer abc $other'
    """
    return Template(text).safe_substitute(variables)
