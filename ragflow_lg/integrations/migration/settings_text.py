"""Settings for a pulled folder, and the list of what its user has to set. Keys are never part of either."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteMcpServer

SETTINGS_FILE = "ragflow-lg.toml"
LIST_FILE = "TO_SET.md"


def write_settings(url: str, key_env: str, mcp_servers: Sequence[RemoteMcpServer], *, is_linked: bool) -> str:
    """Return the settings: the datasets on the server if they are linked, and the MCP servers."""
    return _fill("settings.jinja", url=url, key_env=key_env, mcp_servers=mcp_servers, is_linked=is_linked)


def _has_address(server: RemoteMcpServer) -> bool:
    return server.kind in ("sse", "streamable-http") and urlsplit(server.url).scheme in ("http", "https")


def mcp_variables(server: RemoteMcpServer) -> Mapping[str, str]:
    """Return the environment variable for each header of an MCP server. No other program uses such a name."""
    prefix = f"RAGFLOW_MCP_{_word(server.name or server.id).upper()}"
    names = ("Authorization" if name == "authorization_token" else name for name in server.secrets)
    return {
        name: f"{prefix}_{_word(name).upper()}"[:120] for name in names if re.fullmatch(r"[\w-]{1,80}", name, re.ASCII)
    }


def write_list(
    blanked: Mapping[str, Sequence[str]], mcp_servers: Sequence[RemoteMcpServer], missing: str, problems: Sequence[str]
) -> str:
    """Return the page of what is to be set: keys that were left out, variables, settings, and canvases with errors.

    Args:
        blanked: The places of keys that were left out, by the agent's title.
        mcp_servers: The MCP servers.
        missing: Settings that the canvases need and do not have, as TOML; may be empty.
        problems: What else needs attention.
    """
    variables = {variable: server.name for server in mcp_servers for variable in mcp_variables(server).values()}
    blanked = {title: places for title, places in blanked.items() if places}
    return _fill("to_set.jinja", variables=variables, blanked=blanked, missing=missing, problems=problems)


def _fill(template: str, **values: object) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, autoescape=False
    )
    environment.filters |= {"line": _line, "quote": _quote}
    functions = {
        "has_address": _has_address,
        "mcp_variables": mcp_variables,
        "without_query": _without_query,
        "word": _word,
    }
    return environment.get_template(template).render(**values, **functions).rstrip("\n") + "\n"


def _without_query(url: str) -> str:
    """Return an address without the parts that may contain a key."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _quote(text: str) -> str:
    return json.dumps("".join(c if c.isprintable() else " " for c in text), ensure_ascii=False)


def _line(text: str) -> str:
    """Return a text of the server's for one line of a comment or of a page."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line.replace("`", "'").replace("<", "‹")[:1_000]


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60] or "value"
