"""The headers that an MCP server is sent.

Source: RAGFlow's ``common/mcp_tool_call_conn.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from ragflow_lg.adapters.http.http_client import encode_headers

__all__ = ["filled", "server_headers"]

_OWN_PREFIX = "mcp-"
"""Headers of the protocol itself; sessions make them."""


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Put variables in place of ``$name`` and ``${name}``; names that are unknown stay.

    >>> filled("Bearer ${token} $other", {"token": "abc"})
    'Bearer abc $other'
    """
    return Template(text).safe_substitute(variables)


def server_headers(headers: Mapping[str, str], variables: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Give the headers of the settings, filled from the variables there, and above them a canvas's ``own``.

    A header without a name is left out, and one without a value: blank, or ``Bearer`` with no token. A canvas's are
    filled from each other only: it can read no variable of the settings.

    Raises:
        ServiceError: for a name or a value that no header can have.
    """
    found: dict[str, tuple[str, str]] = {}
    for given, values in ((headers, variables), (own, own)):
        for name, value in given.items():
            name, value = filled(name, values).strip(), filled(value, values).strip()
            if name and value and value.lower() != "bearer" and not name.lower().startswith(_OWN_PREFIX):
                found[name.lower()] = (name, value)
    return {name: value.decode("utf-8", "replace") for name, value in encode_headers(dict(found.values()))}
