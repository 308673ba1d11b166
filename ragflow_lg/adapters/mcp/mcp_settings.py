"""Settings of MCP servers. They are separate from the servers so that reading the settings imports no HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from string import Template
from typing import Literal
from urllib.parse import urlsplit


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
