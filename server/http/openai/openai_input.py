"""Reads conversations in the two forms of OpenAI's API: messages of chat completions, and items of responses.

Both have roles and parts. Parts other than text are files of the turn.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from ragflow_lg.adapters.system_services import inline_bytes
from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.dsl.chat_messages import merge_by_role
from ragflow_lg.server.agents.file_store import MAX_READ_BYTES, normalize_mime_type
from ragflow_lg.server.http.shared.request_bodies import TURN_BYTES, to_text
from ragflow_lg.services.http import HttpRequest

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.services.http import HttpClient

MAX_FILES = 20
"""Maximum number of files in the parts of a request."""
FETCH_S = 60.0
"""How long fetching all of them may take. Together they may have as many bytes as one upload that a run reads."""
_TEXTS = ("text", "input_text", "output_text", "refusal")
_FILES = ("image_url", "input_image", "input_audio", "file", "input_file")
_UNREADABLE = ("video_url", "input_video")
_SILENT = ("reasoning", "item_reference")
"""Items that clients repeat from a response. A reference to a message has been replaced by it."""


class FilePart(Struct, frozen=True):
    """A part of a message that is a file."""

    place: str
    kind: str
    fields: Mapping[str, Any]


class Question(Struct):
    """What a request asks."""

    query: str = ""
    is_asked: bool = False
    """Whether there is a message of the user."""
    earlier: list[list[str]] = field(default_factory=list[list[str]])
    """Pairs of role and text that come before the query."""
    files: list[FilePart] = field(default_factory=list[FilePart])
    """Those of the message with the query."""
    earlier_files: list[FilePart] = field(default_factory=list[FilePart])
    ignored: list[str] = field(default_factory=list[str])
    """What the request says to the model instead of to the agent."""


def read_question(messages: Sequence[Mapping[str, Any]], name: str) -> Question:
    """Read messages, or items of a list with a name. The last message of the user is the query.

    Raises:
        RequestError: If there is something that an agent cannot read.
    """
    read: list[tuple[str, str, list[FilePart]]] = []
    question = Question()
    for number, message in enumerate(messages):
        kind, role = to_text(message.get("type")), to_text(message.get("role"))
        if not role and kind in _SILENT:
            continue
        text, files = _read_content(f"{name}[{number}].content", role, message.get("content"))
        read.append((role, text, files))
        if role not in ("user", "assistant"):
            question.ignored.append(f"{name}[{number}]")
    require_turn_size(sum(len(text) for _, text, _ in read))
    last = max((index for index, (role, _, _) in enumerate(read) if role == "user"), default=None)
    if last is None:
        return question
    question.is_asked, question.query, question.files = True, read[last][1], read[last][2]
    question.earlier = merge_by_role((role, text) for role, text, _ in read[:last])
    question.earlier_files = [file for _, _, files in read[:last] for file in files]
    if len(question.files) + len(question.earlier_files) > MAX_FILES:
        raise RequestError(f"`{name}` has more than {MAX_FILES} files.", 101)
    return question


def require_turn_size(size: int) -> None:
    """Check the size of what a turn gets beside its files.

    Raises:
        RequestError: If it is larger than any body that begins a turn may be.
    """
    if size > TURN_BYTES:
        text = f"Without its files, the body is larger than {TURN_BYTES:,} bytes, the limit for turns."
        raise RequestError(text, 413, status=413)


def _read_content(place: str, role: str, content: Any) -> tuple[str, list[FilePart]]:
    """Return the text of a message, and the files in it, which only users send."""
    if not isinstance(content, list):
        return to_text(content), []
    texts: list[str] = []
    files: list[FilePart] = []
    for index, part in enumerate(cast("list[Any]", content)):
        fields = as_map(part)
        kind = to_text(fields.get("type"))
        if kind in _FILES and role == "user":
            inner = fields.get(kind)
            files.append(FilePart(f"{place}[{index}]", kind, as_map(inner) or ({"url": inner} if inner else fields)))
        elif kind in _UNREADABLE + _FILES and role in ("user", "assistant"):
            raise RequestError(f"{place}[{index}] has the unsupported type {kind!r}.", 101)
        elif isinstance(part, dict):
            texts.append(to_text(fields.get("text")) or to_text(fields.get("refusal")))
    return "\n".join(texts), files


def require_reader(plan: Plan, part: FilePart) -> None:
    """Check that anything in a canvas reads the files of a turn.

    Raises:
        RequestError: If the file would be lost without a word.
    """
    if not plan.reads_files:
        text = f"{part.place} has the unsupported type {part.kind!r}: no component of the agent reads files."
        raise RequestError(text, 101)


async def load_files(parts: Sequence[FilePart], http: HttpClient) -> list[dict[str, Any]]:
    """Return files as a turn takes them: the id of an upload, or the content. Addresses are fetched.

    Raises:
        RequestError: If a part contains no file, or it cannot be fetched.
    """
    left = MAX_READ_BYTES
    files: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(FETCH_S):
            for part in parts:
                file = _find_content(part)
                if file is None:
                    file, size = await _fetch(part, http, left)
                    left -= size
                files.append(file)
    except TimeoutError:
        raise RequestError(f"The files of the request were not fetched within {FETCH_S:g} s.", 101) from None
    return files


def _find_content(part: FilePart) -> dict[str, Any] | None:
    """Return a file whose content or id is in the request, or None."""
    fields = part.fields
    if file_id := to_text(fields.get("file_id")):
        return {"id": file_id}
    url = _url_of(part)
    if part.kind == "input_audio":
        kind = normalize_mime_type(f"audio/{to_text(fields.get('format')) or 'wav'}")
        url = f"data:{kind};base64,{to_text(fields.get('data'))}"
    if not url.startswith("data:"):
        return None
    file = {"name": _name_of(part), "content": url}
    try:
        inline_bytes(file)
    except ServiceError as error:
        raise RequestError(f"{part.place}: {error}", 101) from error
    return file


async def _fetch(part: FilePart, http: HttpClient, max_bytes: int) -> tuple[dict[str, Any], int]:
    """Return the file at an address, and its size."""
    url = _url_of(part)
    if not url.lower().startswith(("http://", "https://")):
        text = "must contain an address (http, https or data:) or the `file_id` of an upload."
        raise RequestError(f"{part.place} {text}", 101)
    try:
        answer = await http.send(HttpRequest("GET", url, is_binary=True, max_response_bytes=max(max_bytes, 1)))
    except ServiceError as error:
        raise RequestError(f"{part.place} cannot be fetched: {error}", 101) from error
    if answer.status != 200:
        raise RequestError(f"{part.place} cannot be fetched: its server returned status {answer.status}.", 101)
    kind = next((value for key, value in answer.headers.items() if key.lower() == "content-type"), "")
    content = f"data:{normalize_mime_type(kind)};base64,{base64.b64encode(answer.content).decode()}"
    return {"name": _name_of(part), "content": content}, len(answer.content)


def _url_of(part: FilePart) -> str:
    return next(filter(None, (to_text(part.fields.get(key)) for key in _CONTENTS)), "")


def _name_of(part: FilePart) -> str:
    return to_text(part.fields.get("filename")) or part.kind


_CONTENTS = ("url", "image_url", "file_data", "file_url")
"""The fields with the content of a file, or its address."""


def referenced_ids(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the ids of messages that items refer to instead of repeating them."""
    for item in items:
        if item.get("type") == "item_reference":
            yield to_text(item.get("id"))
