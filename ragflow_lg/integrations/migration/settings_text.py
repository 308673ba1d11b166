"""Settings for a pulled folder, and the list of what its user has to set. Keys are never part of either."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteMcpServer

SETTINGS_FILE = "ragflow-lg.toml"
LIST_FILE = "TO_SET.md"

_MAX_SHOWN = 50


def write_settings(url: str, key_env: str, mcp_servers: Sequence[RemoteMcpServer], *, is_linked: bool) -> str:
    """Return the settings: the datasets on the server if they are linked, and the MCP servers."""
    lines = [f"# Written by `ragflow-lg pull` from {_comment(url)}. It is yours: later pulls leave it as it is.", ""]
    if is_linked:
        lines += [
            "# The datasets stay on RAGFlow's server and are searched there.",
            "[knowledge]",
            f"url = {_quote(f'ragflow+{url}')}",
            f"api_key = {{ env = {_quote(key_env)} }}",
            "",
        ]
    for server in mcp_servers:
        lines += [*_mcp_section(server), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _mcp_section(server: RemoteMcpServer) -> Iterator[str]:
    yield f"# MCP server {_comment(server.name)}: {len(server.tools)} tools"
    if server.kind not in ("sse", "streamable-http") or urlsplit(server.url).scheme not in ("http", "https"):
        yield f"# It is left out: it is a {_comment(server.kind) or 'server'} without a web address."
        return
    yield f"[mcp.{_quote(server.id)}]"
    yield f"url = {_quote(_without_query(server.url))}"
    yield f"type = {_quote(server.kind)}"
    variables = mcp_variables(server)
    if variables:
        pairs = ", ".join(f"{_quote(name)} = {_quote(f'${{{_word(name)}}}')}" for name in variables)
        yield f"headers = {{ {pairs} }}"
        sources = (f"{_quote(_word(name))} = {{ env = {_quote(variable)} }}" for name, variable in variables.items())
        yield f"variables = {{ {', '.join(sources)} }}"


def mcp_variables(server: RemoteMcpServer) -> Mapping[str, str]:
    """Return the environment variable for each header of an MCP server. No other program uses such a name."""
    prefix = f"RAGFLOW_MCP_{_word(server.name or server.id).upper()}"
    names = ("Authorization" if name == "authorization_token" else name for name in server.secrets)
    return {
        name: f"{prefix}_{_word(name).upper()}"[:120] for name in names if re.fullmatch(r"[\w-]{1,80}", name, re.ASCII)
    }


def write_list(
    blanked: Mapping[str, Sequence[str]],
    mcp_servers: Sequence[RemoteMcpServer],
    missing: str,
    problems: Sequence[str],
) -> str:
    """Return the page of what is to be set: keys that were left out, variables, settings, and canvases with errors.

    Args:
        blanked: The places of keys that were left out, by the agent's title.
        mcp_servers: The MCP servers.
        missing: Settings that the canvases need and do not have, as TOML; may be empty.
        problems: What else needs attention.
    """
    lines = ["# What to set", "", "Keys and passwords are not copied from RAGFlow.", ""]
    variables = {variable: server.name for server in mcp_servers for variable in mcp_variables(server).values()}
    if variables:
        lines += ["## Environment variables of MCP servers", ""]
        lines += [f"- `{variable}`: {_comment(name)}" for variable, name in variables.items()] + [""]
    if any(blanked.values()):
        lines += [
            "## Keys that canvases contained",
            "",
            "Set them in the settings, as in `[tools.tavily] api_key`.",
            "",
        ]
        for title, places in blanked.items():
            lines += [f"- {_comment(title)}: {_comment(', '.join(places[:_MAX_SHOWN]))}"] if places else []
        lines += [""]
    if missing:
        lines += ["## Settings that the canvases need", "", "```toml", missing.strip("\n"), "```", ""]
    if problems:
        lines += ["## Problems", ""] + [f"- {_comment(problem)}" for problem in problems] + [""]
    if not (variables or any(blanked.values()) or missing or problems):
        lines.append("Nothing is missing.")
    return "\n".join(lines).rstrip("\n") + "\n"


def _without_query(url: str) -> str:
    """Return an address without the parts that may contain a key."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _quote(text: str) -> str:
    return json.dumps("".join(c if c.isprintable() else " " for c in text), ensure_ascii=False)


def _comment(text: str) -> str:
    """Return a text of the server's for one line of a comment or of a page."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line.replace("`", "'").replace("<", "‹")[:1_000]


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60] or "value"
