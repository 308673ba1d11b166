"""The same questions to an agent on a RAGFlow server and to its canvas here."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct, field

from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi, as_map, is_id, read_object, read_text
from ragflow_lg.adapters.ragflow_api.remote_sessions import read_session, read_sources
from ragflow_lg.base.errors import RagflowLgError, ServiceError
from ragflow_lg.runs.wire.wire_events import (
    AnswerText,
    Message,
    MessageEnd,
    MessageReset,
    UserInputs,
    WireEvent,
    WireNodeFinished,
    WorkflowFinished,
)

if TYPE_CHECKING:
    from ragflow_lg.runs.runner import Runner

CLEAN_UP_S = 15.0
NOT_ASKED = "It was not asked, because an earlier question failed."
Fields = dict[str, dict[str, Any]]
"""The values of a form, each as ``{"value": …}``."""


class Turn(Struct, eq=False):
    """What one side did with a question."""

    said: AnswerText = field(default_factory=AnswerText)
    path: list[str] = field(default_factory=list[str])
    """The nodes in the order in which they finished."""
    form: dict[str, Any] = field(default_factory=dict[str, Any])
    """The fields of the forms that wait."""
    error: str = ""
    has_ended: bool = False
    seconds: float = 0.0

    @property
    def sources(self) -> list[str]:
        """The names of the cited documents."""
        chunks = map(as_map, as_map(self.said.reference.get("chunks")).values())
        return sorted({read_text(chunk, "document_name", "docnm_kwd", max_chars=255) for chunk in chunks})

    def feed(self, *events: WireEvent) -> None:
        """Add the next events."""
        for event in events:
            self.said.feed(event)
            if isinstance(event, WireNodeFinished):
                self.path.append(event.component_id)
                self.error = event.error or self.error  # one that does not end the turn is followed by its end
            elif isinstance(event, WorkflowFinished | UserInputs):
                self.error, self.has_ended = "", True
            if isinstance(event, UserInputs):
                self.form |= event.inputs


async def converse(side: Here | There, questions: Sequence[str], inputs: Fields) -> list[Turn]:
    """Ask questions one after the other in a session; one that follows a form answers it. A failure ends it."""
    turns = [Turn() for _ in questions]
    form: Mapping[str, Any] = {}
    turn, began_s = turns[0], monotonic()
    try:
        async with side.open() as session:
            for turn, question in zip(turns, questions, strict=True):
                began_s = monotonic()
                query, values = ("", _fill(form, question)) if form else (question, inputs)
                await side.ask(session, turn, query, values)
                turn.seconds, form = monotonic() - began_s, turn.form
    except RagflowLgError as error:
        turn.error = str(error)
        for later in turns[turns.index(turn) + 1 :]:
            later.error = NOT_ASKED
    return turns


def _fill(form: Mapping[str, Any], text: str) -> Fields:
    """Return the values of a form: a text for its only field, the entries of a JSON object, or lines as stored here.

    All may come from the server, so a value is never taken for the name of a file here.
    """
    if not text.strip():
        raise ServiceError("The answer to this form is not stored. Ask with --questions and --together, and answer it.")
    lines = dict(re.findall(r"^(\S.*?): (.*)$", text, re.MULTILINE))
    given = dict.fromkeys(form, text) if len(form) == 1 else read_object(text)
    given = lines if lines and lines.keys() <= form.keys() else given
    if form and not given:
        raise ServiceError(f"The question after a form answers it: as a JSON object with {', '.join(form)}.")
    return {name: {"value": given[name]} for name in form if name in given}


class Here(Struct):
    """The canvas here."""

    runner: Runner

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        """Yield the id of a session that is in memory only."""
        yield self.runner.services.ids.run_id()

    async def ask(self, session: str, turn: Turn, query: str, inputs: Fields) -> None:
        """Run a turn."""
        run = self.runner.start(session, {"query": query, "inputs": dict(inputs)})
        async for event in run:
            turn.feed(event)
        turn.error = run.error or turn.error


class There(Struct):
    """An agent on a RAGFlow server. The sessions are deleted again; ``left`` has those that could not be."""

    api: RagflowApi
    agent_id: str
    left: list[str] = field(default_factory=list[str])
    has_opened: bool = False
    """Whether a session could be made."""

    @property
    def _sessions(self) -> str:
        return f"/api/v1/agents/{quote(self.agent_id, safe='')}/sessions"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        """Yield the id of a new session, and delete it at the end, however the block ends."""
        opening = asyncio.create_task(self._create())  # it ends even if this task is cancelled meanwhile
        try:
            yield await asyncio.shield(opening)
        except BaseException:
            async with _cleaning_up():
                await self.api.send("POST", f"/api/v1/tasks/{await opening}/cancel")
            raise
        finally:
            async with _cleaning_up():
                await self._delete(await opening)

    async def _create(self) -> str:
        row = as_map(await self.api.send("POST", self._sessions, body={"name": "ragflow-lg compare"}))
        if not is_id(id_ := read_text(row, "id", max_chars=200)):
            raise ServiceError("RAGFlow opened no session.")
        self.has_opened = True
        return id_

    async def _delete(self, id_: str) -> None:
        self.left.append(id_)
        # 0.27 reads the body, 1.0 the query; neither says if it has deleted nothing.
        await self.api.send("DELETE", self._sessions, query={"ids": id_}, body={"ids": [id_]})
        if await read_session(self.api, self.agent_id, id_) is None:
            self.left.remove(id_)

    async def ask(self, session: str, turn: Turn, query: str, inputs: Fields) -> None:
        """Run a turn over there."""
        body: Any = {"agent_id": self.agent_id, "session_id": session, "query": query, "stream": True}
        body |= {"inputs": inputs} if inputs else {}
        for frame in await self.api.stream("/api/v1/agents/chat/completions", body):
            turn.feed(*_read_frame(frame))
            if frame.get("code") or frame.get("event") == "cancelled":
                turn.error = read_text({**frame, **as_map(frame.get("data"))}, "message", max_chars=2_000)
        if not turn.has_ended:
            turn.error = turn.error or "The stream ended early."


@asynccontextmanager
async def _cleaning_up() -> AsyncGenerator[None]:
    """Limit the block to some seconds, because somebody may have pressed Ctrl-C. Its errors are dropped."""
    with contextlib.suppress(ServiceError, TimeoutError):
        async with asyncio.timeout(CLEAN_UP_S):
            yield


def _read_frame(frame: Mapping[str, Any]) -> Iterator[WireEvent]:
    """Yield what a frame of any generation says, as far as it is compared."""
    data = as_map(frame.get("data"))
    match frame.get("event"):
        case "message":
            starts, ends = bool(data.get("start_to_think")), bool(data.get("end_to_think"))
            yield Message(read_text(data, "content"), start_to_think=starts, end_to_think=ends)
        case "message_end":
            yield MessageEnd()
        case "message_reset":
            yield MessageReset(read_text(data, "content"))
        case "node_finished":
            id_, error = read_text(data, "component_id", max_chars=200), read_text(data, "error", max_chars=2_000)
            yield WireNodeFinished({}, {}, id_, "", "", error or None, 0.0, 0.0)
        case "user_inputs" | "waiting_for_user":
            yield UserInputs(as_map(data.get("inputs")), read_text(data, "tips"))
        case "workflow_finished":
            yield WorkflowFinished(None, None, 0.0, 0.0)
        case _:
            pass
    if reference := as_map(data.get("reference")):  # in 1.0 also beside an answer that was not streamed
        yield MessageEnd({"reference": {"chunks": {**read_sources(reference)[0]}}})
