"""Speaks the texts of Messages with ``auto_play`` while they stream. A failure of the voice never costs text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.base.spoken_text import SentenceCutter
from ragflow_lg.runs.wire.wire_events import Message, MessageEnd, MessageReset, UserInputs, WorkflowFinished
from ragflow_lg.services.chat import NO_USAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragflow_lg.component.events import AgentRecord
    from ragflow_lg.runs.wire.wire_events import WireEvent
    from ragflow_lg.services.speech import Speech, SpokenText

logger = logging.getLogger(__name__)

CONCURRENCY = 2
"""How many sentences of a run are synthesized at the same time, as in RAGFlow."""

MAX_SENTENCES = 200
"""Maximum number of sentences of a run that are spoken."""

MAX_FAILURES = 3
"""How many failures in a row silence the voice for the rest of the run."""

WAIT_S = 30.0
"""How long the last event of a run waits for the sentences that are not spoken yet."""


class Speaker:
    """Turns the texts of a run into audio events, which it publishes itself, in the order of the sentences.

    It hears every event after that has been published, and never waits for the voice, except in `finish`.
    """

    def __init__(
        self, speech: Speech, models: Mapping[str, str], publish: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Initialize. ``models`` are the ids of the models of the Messages that are spoken, by node."""
        self._speech = speech
        self._models = models
        self._publish = publish
        self._cutters: dict[str, SentenceCutter] = {}
        self._thinking: set[str] = set()
        self._sentences: asyncio.Queue[asyncio.Task[SpokenText | None] | None] = asyncio.Queue()
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._tasks: set[asyncio.Task[SpokenText | None]] = set()
        self._publishing: asyncio.Task[None] | None = None
        self._count = 0
        self._failures = 0
        self._has_warned = False
        self.usage = NO_USAGE
        """The usage of the sentences that have been spoken."""

    def hear(self, event: WireEvent | AgentRecord) -> None:
        """Record an event that has been published, and start to speak the sentences that it completes."""
        if not isinstance(event, Message | MessageEnd | MessageReset):
            return
        node = event.visit.partition(" ")[2]
        if node not in self._models:
            return
        cutter = self._cutters.setdefault(event.visit, SentenceCutter())
        if isinstance(event, MessageReset):
            cutter.discard()
        elif isinstance(event, MessageEnd):
            self._say(cutter.finish(), node)
            self._thinking.discard(event.visit)
        elif event.start_to_think:
            self._say(cutter.finish(), node)
            self._thinking.add(event.visit)
        elif event.end_to_think:
            self._thinking.discard(event.visit)
        elif event.visit not in self._thinking:
            self._say(cutter.feed(event.content), node)

    async def finish(self, event: WorkflowFinished | UserInputs) -> None:
        """Wait until everything is spoken, but not longer than `WAIT_S`, and add the usage to the last event."""
        if self._publishing is not None:
            self._sentences.put_nowait(None)
            _, pending = await asyncio.wait({self._publishing}, timeout=WAIT_S)
            if pending:
                self._warn(f"the voice is too slow, {WAIT_S:g} s after the end of the text")
            await self.aclose()
        if isinstance(event, WorkflowFinished):
            event.usage = event.usage.plus(self.usage)

    async def aclose(self) -> None:
        """Stop speaking."""
        tasks = [*self._tasks, *([self._publishing] if self._publishing is not None else ())]
        self._publishing = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _say(self, sentences: list[str], node: str) -> None:
        for sentence in sentences:
            if self._failures >= MAX_FAILURES or self._count >= MAX_SENTENCES:
                return
            self._count += 1
            task = asyncio.create_task(self._synthesize(sentence, self._models[node]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._sentences.put_nowait(task)
            if self._publishing is None:
                self._publishing = asyncio.create_task(self._publish_all())

    async def _synthesize(self, sentence: str, model: str) -> SpokenText | None:
        """Return a sentence's audio, or None if the voice fails."""
        async with self._slots:
            if self._failures >= MAX_FAILURES:
                return None
            try:
                spoken = await self._speech.speak(sentence, model)
            except RagflowLgError as error:
                self._failures += 1
                self._warn(str(error))
                return None
            self._failures = 0
            return spoken

    async def _publish_all(self) -> None:
        while (task := await self._sentences.get()) is not None:
            spoken = await task
            if spoken is not None:
                self.usage = self.usage.plus(spoken.usage)
                await self._publish(Message("", audio_binary=spoken.audio.hex()))

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            logger.warning("A part of the answer is not spoken: %s", reason)
        self._has_warned = True
