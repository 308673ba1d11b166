"""Conversion of an attached file to what a run reads: text, or an image as a ``data:`` URI."""

from __future__ import annotations

import base64
import re
from pathlib import PurePath

from ragflow_lg.adapters.knowledge.file_text import DOCUMENTS, SUFFIXES, read_file
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.services.workers import Workers

IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
"""Content types of images, by suffix."""

AUDIO_SUFFIXES = frozenset((".aac", ".flac", ".m4a", ".mp3", ".oga", ".ogg", ".opus", ".wav", ".weba"))

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+(?:=[^;,]*)?)*,")

READ_SECONDS = 20
"""Maximum time for reading a document. An ordinary one of a hundred pages takes a few seconds."""


def is_audio(name: str, mime_type: str) -> bool:
    """Return whether a file contains speech or other audio.

    >>> is_audio("a.MP3", ""), is_audio("a", "audio/webm"), is_audio("a.txt", "")
    (True, True, False)
    """
    return mime_type.startswith("audio/") or PurePath(name).suffix.lower() in AUDIO_SUFFIXES


def document_type(content: str) -> str:
    """Return the type of a ``data:`` URI whose text can be read; ``""`` for images, audio and plain text.

    >>> document_type("data:text/plain;base64,SGk="), document_type("data:image/png;base64,"), document_type("data: 5")
    ('text/plain', '', '')
    """
    found = _DATA_URI.match(content)
    kind = found[1].lower() if found is not None else ""
    return "" if kind.startswith(("image/", "audio/", "video/")) else kind


async def file_text(workers: Workers, name: str, mime_type: str, content: bytes) -> str:
    """Return a file's text, or an image as a ``data:`` URI.

    Plain text, tables and JSON are returned unchanged. Only HTML and documents in binary formats are parsed, in a
    worker process. The content type matters for images only, and may be ``""``.

    Raises:
        ServiceError: if it is not what its type or suffix says, or contains no text.
    """
    suffix = PurePath(name).suffix.lower()
    if mime_type in IMAGES.values() or suffix in IMAGES:
        return image_uri(name, content)
    if suffix in DOCUMENTS or suffix in (".html", ".htm"):
        try:
            return await workers.run(document_text, name, content)
        except ServiceError as error:
            raise ServiceError(f"The file {name!r} cannot be read: {str(error).rstrip('.')}.") from None
    return _plain_text(name, content)


@worker_task("Reading the file", seconds=READ_SECONDS, small_size=0)
def document_text(name: str, content: bytes) -> str:
    """Return the text of an HTML page or an office document."""
    texts = [text for page in read_file(name, content).pages for text in (page.title, page.text)]
    return "\n".join(line for text in texts for line in text.split("\n") if line.strip())


def image_uri(name: str, content: bytes) -> str:
    """Return an image as a ``data:`` URI. Its bytes decide about its type, because models refuse a wrong one.

    Raises:
        ServiceError: if it is not an image, or incomplete.
    """
    kind = _image_type(content)
    if not kind:
        known = ", ".join(sorted(type_.removeprefix("image/").upper() for type_ in set(IMAGES.values())))
        raise ServiceError(f"The file {name!r} is not an image of a supported type ({known}).")
    if not _is_complete(kind, content):
        raise ServiceError(f"The image {name!r} is incomplete. Save it again.")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _image_type(content: bytes) -> str:
    """Return an image's content type, or ``""``."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else ""


def _is_complete(kind: str, content: bytes) -> bool:
    """Return whether an image has an end. Programs may append other data to it."""
    if kind == "image/webp":
        return len(content) >= int.from_bytes(content[4:8], "little") + 8
    ends = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9", "image/gif": b"\0;"}
    return ends[kind] in content


def _plain_text(name: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        kinds = ", ".join(sorted(SUFFIXES))
        raise ServiceError(f"The file {name!r} is not UTF-8 text, an image or one of the supported types: {kinds}.")
    return text
