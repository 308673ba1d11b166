"""The parts of A2A messages and artifacts, as what turns and their events contain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson
from a2a.types import Artifact, Message, Part, Role, TaskArtifactUpdateEvent
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.integrations.a2a.data_parts import read_data
from ragflow_lg.runs.wire.wire_events import AnswerText, MessageEnd, MessageReset
from ragflow_lg.server.http.shared.request_bodies import Upload
from ragflow_lg.server.http.shared.responses import encode_json

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import WireEvent

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Larger files are sent as addresses, from which clients download them with their key."""
MAX_FILES = 20
"""Maximum number of files in one message."""


class Sent(NamedTuple):
    """What a client has sent: a text, the values of fields, and files."""

    text: str
    fields: dict[str, Any]
    files: list[Upload]


def read_message(message: Message) -> Sent:
    """Return what a message contains.

    Raises:
        RequestError: if it contains what no turn can begin with.
    """
    texts: list[str] = []
    fields: dict[str, Any] = {}
    files: list[Upload] = []
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text.replace("\x00", ""))
            case "data":
                try:
                    data: Any = read_data(part.data, is_exact=True)
                except ValueError:
                    problem = "A number of the data is larger than 2^53, or is none. Send it as a string."
                    raise RequestError(problem, 101) from None
                if not isinstance(data, dict):
                    raise RequestError("The data of a part must be an object of fields.", 101)
                fields |= cast("dict[str, Any]", data)
            case "raw":
                files.append(Upload(part.filename or "file", part.media_type, part.raw))
            case kind:
                what = "an address" if kind == "url" else "no content"
                raise RequestError(f"A part has {what}. Send text, data or the bytes of a file.", 101)
    if len(files) > MAX_FILES:
        raise RequestError(f"A message may have at most {MAX_FILES} files.", 101)
    return Sent("\n".join(texts), fields, files)


def text_part(text: str) -> Part:
    """Return a part with a text."""
    return Part(text=_encodable(text))


def data_part(value: Any) -> Part:
    """Return a part with JSON."""
    return Part(data=ParseDict(_plain(value), Value()))


def to_struct(value: Mapping[str, Any]) -> Struct:
    """Return an object as metadata."""
    return ParseDict(_plain(value), Struct())


def agent_message(id_: str, parts: Iterable[Part], ids: Mapping[str, str], role: Role = Role.ROLE_AGENT) -> Message:
    """Return a message of a task; ``ids`` are those of the task and its context."""
    return Message(message_id=id_, role=role, parts=parts, **cast("Any", ids))


def _plain(value: Any) -> Any:
    """Return JSON that protobuf accepts: without lone surrogates, and without what is no JSON."""
    return orjson.loads(_encodable(encode_json(value).decode()))


def _encodable(text: str) -> str:
    return join_surrogates(text).encode("utf-8", "replace").decode()


class RunArtifact:
    """The artifact of one run: the text of its Messages, and the files that they offer."""

    def __init__(self, run_id: str, ids: Mapping[str, str]) -> None:
        self._run_id = run_id
        self._ids: Any = ids
        self.answer = AnswerText()
        self.files: list[dict[str, Any]] = []
        """The files as Messages describe them."""
        self._is_begun = False
        self._half = ""
        """Half a character that is sent with its other half."""

    def feed(self, events: Sequence[WireEvent]) -> TaskArtifactUpdateEvent | None:
        """Process events; return what they change, or None."""
        pieces = [self._half]
        is_replaced = not self._is_begun
        for event in events:
            pieces.append(self.answer.feed(event))
            is_replaced = is_replaced or isinstance(event, MessageReset)
            if isinstance(event, MessageEnd):
                found = [event.extras.get("attachment"), *cast("list[Any]", event.extras.get("downloads") or [])]
                self.files += [file for file in found if isinstance(file, dict)]
        text = self.answer.text if is_replaced else "".join(pieces)
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text.removesuffix(self._half) if self._half else text
        if not text and not (is_replaced and self._is_begun):
            return None
        is_appended, self._is_begun = not is_replaced, True
        return self.update([text_part(text)], is_appended=is_appended)

    def update(
        self, parts: Sequence[Part], *, is_appended: bool = True, is_last: bool = False
    ) -> TaskArtifactUpdateEvent:
        """Return an update of the artifact."""
        artifact = self._artifact(parts)
        return TaskArtifactUpdateEvent(artifact=artifact, append=is_appended, last_chunk=is_last, **self._ids)

    def end(self, files: Sequence[Part]) -> TaskArtifactUpdateEvent | None:
        """Return the last update, or None if the run has shown nothing."""
        if not files and not self._is_begun:
            return None
        return self.update(files, is_appended=self._is_begun, is_last=True)

    def whole(self, text: str, files: Sequence[Part]) -> Artifact | None:
        """Return the artifact with this text, or None if the run has shown nothing."""
        parts = [*([text_part(text)] if text else []), *files]
        return self._artifact(parts) if parts else None

    def _artifact(self, parts: Sequence[Part]) -> Artifact:
        reference = self.answer.reference
        metadata = to_struct({"reference": reference}) if any(reference.values()) else None
        return Artifact(artifact_id=self._run_id, name="answer", parts=parts, metadata=metadata)


Updates = AsyncGenerator[Any]
"""The updates of a task: its status, and its artifacts."""
