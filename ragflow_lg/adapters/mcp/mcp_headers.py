"""The request headers for an MCP server.

Source: RAGFlow's ``common/mcp_tool_call_conn.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from ragflow_lg.adapters.http.http_client import encode_headers

__all__ = ["build_headers", "substitute"]

_PROTOCOL_PREFIX = "mcp-"
"""Prefix of the headers of the protocol itself; only sessions set them."""


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$name`` and ``${name}`` by variables; unknown names stay unchanged.

    >>> substitute("Bearer ${token} $other", {"token": "abc"})
    'Bearer abc $other'
    """
    return Template(text).safe_substitute(variables)


def build_headers(
    headers: Mapping[str, str], variables: Mapping[str, str], canvas_headers: Mapping[str, str]
) -> dict[str, str]:
    """Return the headers of the settings with their variables, overridden by the headers of a canvas.

    Headers without a name or a value are dropped; ``Bearer`` without a token counts as no value. Placeholders in the
    headers of a canvas refer only to its other headers, so that a canvas cannot read variables of the settings.

    Raises:
        ServiceError: for a name or a value that is not valid in HTTP.
    """
    merged: dict[str, tuple[str, str]] = {}
    for source, values in ((headers, variables), (canvas_headers, canvas_headers)):
        for name, value in source.items():
            name, value = substitute(name, values).strip(), substitute(value, values).strip()
            if name and value and value.lower() != "bearer" and not name.lower().startswith(_PROTOCOL_PREFIX):
                merged[name.lower()] = (name, value)
    return {name: value.decode("utf-8", "replace") for name, value in encode_headers(dict(merged.values()))}
