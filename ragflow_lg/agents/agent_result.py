"""The side results of an agent's visit: its tool calls and the files they created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct, field

from ragflow_lg.agents.agent_tool import Outcome
from ragflow_lg.agents.toolbox import read_arguments
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.chat import ToolCall

__all__ = ["AgentResult"]

_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "[]\\`"} | {"\n": " ", "\r": " "})


class AgentResult(Struct):
    """The tool calls and files of one visit, in a deterministic order: a resumed visit yields the same."""

    use_tools: list[dict[str, JsonValue]] = field(default_factory=list[dict[str, Any]])
    """``{name, arguments, results}`` of each call, in the order in which the model requested them."""
    artifacts: list[Mapping[str, JsonValue]] = field(default_factory=list[Mapping[str, Any]])
    """Files that tools created, without duplicates."""

    def add_call(self, call: ToolCall, outcome: Outcome) -> None:
        """Add a tool call."""
        arguments = read_arguments(call.arguments)
        self.use_tools.append({"name": call.name, "arguments": arguments, "results": outcome.value})
        self.artifacts += [artifact for artifact in outcome.artifacts if artifact not in self.artifacts]

    def links(self, answer: str) -> str:
        """Return links to append to an answer, for the files that it does not link itself; ``""`` if there are none."""
        links = dict.fromkeys(link for artifact in self.artifacts if (link := _link(artifact)))
        return "".join(f"\n\n{link}" for link in links if link not in answer)


def _link(artifact: Mapping[str, JsonValue]) -> str:
    """Return a file as Markdown: an embedded image or a download link; ``""`` if its URL is invalid."""
    name = to_text(artifact.get("name")).translate(_MARKDOWN).strip() or "file"
    url = quote(to_text(artifact.get("url")), safe="/:?#[]@!$&'*+,;=%~-._")
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if not (parts.scheme in ("http", "https") and parts.netloc) and not (not parts.scheme and url.startswith("/")):
        return ""
    is_image = to_text(artifact.get("mime_type")).startswith("image/")
    return f"![{name}]({url})" if is_image else f"[Download {name}]({url})"
