"""The section of the HTTP server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from server.settings.section import Section

__all__ = ["ServerSection"]


class ServerSection(Section):
    """``[server]``: the HTTP server of ``ragflow-lg serve``."""

    host: str = "127.0.0.1"
    """Address to listen at; others than the default open the server to the network."""
    port: Annotated[int, Field(ge=0, le=65535)] = 9380
    """0 takes a free one."""
    database: SecretStr = SecretStr("sqlite:///ragflow-lg-server.db")
    """URL of agents, sessions and keys: ``sqlite:///PATH``, ``postgresql://…``, ``mysql://…`` or ``mariadb://…``."""
    compat: Literal["current", "0.24"] = "current"
    """Shapes of lists and answers: RAGFlow's present ones, or those up to 0.25.0. A key or the header
    ``X-RAGFlow-Compat`` may say otherwise."""
    max_body_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024
    """Largest body of a request."""
    allow_origins: tuple[str, ...] = ()
    """Origins whose pages may call the server from a browser (CORS); ``*`` for all."""
    drain_s: Annotated[float, Field(ge=0)] = 20.0
    """How long runs may take to their next step, and answers to be sent, once the server is told to stop."""
