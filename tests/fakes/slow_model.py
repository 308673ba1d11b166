"""A model that answers when a test lets it, and a canvas that streams its answer."""

import asyncio
from collections.abc import AsyncIterator

from ragflow_lg.runs.run import Run
from ragflow_lg.runs.wire.wire_events import WireEvent
from ragflow_lg.services.chat import ChatDelta, ChatRequest
from tests.fakes.regions import node, text
from tests.fakes.services import ScriptedModel


class SlowModel(ScriptedModel):
    """A model that streams one piece and waits for its release before the next one."""

    stream_count = 0
    is_released = False

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        self.stream_count += 1
        yield ChatDelta("the ")
        while not self.is_released:
            await asyncio.sleep(0.01)
        yield ChatDelta("rest")


STREAM = {
    "a": text(["g"], "A"),
    "g": node("LLM", {"prompts": "x"}, ["m"]),
    "m": node("Message", {"content": "{g@content}"}),
}


async def until_message(run: Run) -> AsyncIterator[WireEvent]:
    """Read a run until its first message; return the iterator over the rest."""
    events = aiter(run)
    async for event in events:
        if event.event == "message":
            return events
    raise AssertionError("the run has ended without a message")
