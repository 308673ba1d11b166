"""The server of ``ragflow-lg mock-llm`` in this process, for tests of the real client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ragflow_lg.integrations.mock_model.mock_llm_app import Exchange, mock_app
from ragflow_lg.integrations.mock_model.rules import AudioRules, Reply, Rule, Rules
from tests.fakes.tool_stubs.stub import serving


def reply(*pieces: str, **more: Any) -> Reply:
    """Return a reply that is streamed in these pieces."""
    return Reply(text=list(pieces), **more)


@dataclass
class MockLLM:
    """A mock server that sends its replies in order and repeats the last one. Use it with ``async with``.

    ``rules`` replace the replies.
    """

    replies: Sequence[Reply] = field(default_factory=lambda: [reply("ok", usage=False)])
    rules: Rules | None = None
    audio: AudioRules = field(default_factory=AudioRules)
    requests: list[Exchange] = field(default_factory=list[Exchange])
    received_request: asyncio.Event = field(default_factory=asyncio.Event)
    client_left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed the connection before the end of an answer."""
    base_url: str = ""
    _server: Any = None

    async def __aenter__(self) -> MockLLM:
        rules = self.rules or Rules(rules=[Rule(replies=list(self.replies))], audio=self.audio)
        self._server = serving(mock_app(rules, self._listen))
        self.base_url = f"http://{await self._server.__aenter__()}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    def _listen(self, exchange: Exchange) -> None:
        if not exchange.end:
            self.requests.append(exchange)
            self.received_request.set()
        elif exchange.end == "left":
            self.client_left.set()
