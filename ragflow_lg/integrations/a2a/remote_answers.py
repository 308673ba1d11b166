"""What components ask of the agents of other servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct

from ragflow_lg.base.values import JsonValue


class RemoteFile(Struct, frozen=True):
    """A file that an agent has sent, or only its address."""

    name: str
    mime_type: str
    content: bytes = b""
    url: str = ""


class RemoteAnswer(Struct, frozen=True):
    """The answer of an agent, or the question that it asks."""

    state: Literal["completed", "input-required"]
    text: str
    task: str = ""
    """The id of the task, which a question is answered with."""
    data: tuple[JsonValue, ...] = ()
    """What it says as JSON, such as the schema of the answer."""
    files: tuple[RemoteFile, ...] = ()


Report = Callable[[str], Awaitable[None]]
"""Takes what an agent says while it works."""


class RemoteAgents(Protocol):
    """The agents of other servers that the settings declare."""

    async def ask(self, agent: str, text: str, task: str, report: Report) -> RemoteAnswer:
        """Send a text to an agent, as a new task or as an answer to one that waits.

        The task is cancelled if the caller is.

        Raises:
            SettingsError: if no such agent is declared, or no call is possible.
            ServiceError: if the agent cannot be reached, fails, refuses, or exceeds a limit.
        """
        ...
