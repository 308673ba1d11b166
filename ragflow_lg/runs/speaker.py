"""Speaks the texts of Messages with ``auto_play`` while they stream. A failure of the voice never costs text."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError
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


MAX_SENTENCE_CHARS = 500
"""Longer sentences are cut at a blank."""

_END = re.compile(r"[。！？!?；;\n][”’\"』」】》）)]{0,8}|[.](?=\s)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_EMOJI = re.compile("[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\u200d\ufe0f]")
_CITATION = re.compile(r"\s{0,8}(?:\[ID:\s?\d{1,9}\]|##\d{1,9}\$\$)")
_IMAGE = re.compile(r"!\[([^\[\]]{0,300})\]\([^()\s]{0,2000}\)")
_LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()\s]{0,2000}\)")
_ADDRESS = re.compile(r"https?://\S{1,2000}")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,500}>")
_LINE_START = re.compile(r"^\s{0,20}(?:#{1,6}\s|>\s?|[-*+]\s|\d{1,4}[.)]\s|\|)")
_RULE = re.compile(r"[-=*_:|\s]{3,}")
_MARKS = re.compile(r"\*{1,3}|_{2,3}|~~|`+")
_FENCE = ("```", "~~~")


class SentenceCutter:
    """Cuts a text that arrives in pieces into sentences. Blocks of code are left out."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_code = False

    def feed(self, text: str) -> list[str]:
        """Add a piece of text. Return the sentences that are now complete, as they are spoken."""
        self._pieces.append(text)
        if _END.search(text) is None and len(self._pieces) < 100 and not text[:1].isspace():
            return []
        rest = "".join(self._pieces)
        sentences: list[str] = []
        start = 0
        for match in _END.finditer(rest):
            # A quotation mark after the end, or a digit after a full stop, may still arrive.
            if match.end() == len(rest) and rest[-1] != "\n":
                break
            sentences += self._speak(rest[start : match.end()])
            start = match.end()
        self._pieces = [rest[start:]]
        return sentences

    def finish(self) -> list[str]:
        """Return what remains at the end of the text."""
        rest, self._pieces = "".join(self._pieces), []
        sentences = self._speak(rest)
        self._is_code = False
        return sentences

    def discard(self) -> None:
        """Forget the sentence that is not complete."""
        self._pieces, self._is_code = [], False

    def _speak(self, sentence: str) -> list[str]:
        if sentence.lstrip().startswith(_FENCE):
            self._is_code = not self._is_code
            return []
        return [] if self._is_code else split_spoken(clean_spoken(sentence))


def clean_spoken(text: str) -> str:
    r"""Return a text without Markdown, citations, tags, addresses and emoji.

    >>> clean_spoken("- **Rice** [ID:3] is [cheap](https://a.b/c) 🍚.\n")
    'Rice is cheap.'
    """
    text = text.encode("utf-8", "ignore").decode()
    text = _EMOJI.sub("", _CONTROL.sub(" ", text))
    if _RULE.fullmatch(text):
        return ""
    text = _CITATION.sub("", _LINE_START.sub("", text))
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    text = _MARKS.sub("", _TAG.sub(" ", _ADDRESS.sub(" ", text))).replace("|", ", ")
    text = re.sub(r"\s+([.,!?;:])", r"\1", " ".join(text.split())).strip(" ,")
    return text if any(character.isalnum() for character in text) else ""


def split_spoken(text: str) -> list[str]:
    """Return a sentence in parts that are short enough, cut at blanks if possible."""
    parts: list[str] = []
    while len(text) > MAX_SENTENCE_CHARS:
        cut = text.rfind(" ", 1, MAX_SENTENCE_CHARS)
        cut = cut if cut > 0 else MAX_SENTENCE_CHARS
        parts.append(text[:cut].strip())
        text = text[cut:].strip()
    return [*parts, text] if text else parts
