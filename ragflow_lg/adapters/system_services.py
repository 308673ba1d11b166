"""Services that a process provides itself: the clock, random ids, files inside the request, a cache of tool results."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.ids import RunId
from ragflow_lg.base.sized_cache import SizedCache
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.services import Clock, FileContent
from ragflow_lg.services.tool_policies import ToolPermits

OVERHEAD_BYTES = 200
"""Memory that an entry uses in addition to its text."""


class SystemClock:
    """The `ragflow_lg.services.services.Clock` of this machine."""

    def now(self) -> float:
        """Return the time in epoch seconds."""
        return time.time()  # noqa: TID251 - the only place that reads the system clock

    def monotonic(self) -> float:
        """Return the time in seconds of a clock that never goes backwards."""
        return time.monotonic()

    def local_time(self) -> str:
        """Return the local time as ``YYYY-MM-DD HH:MM:SS``."""
        return time.strftime("%Y-%m-%d %H:%M:%S")


class RandomIds:
    """Unpredictable `ragflow_lg.services.services.Ids`."""

    def run_id(self) -> RunId:
        """Return 32 hexadecimal digits."""
        return RunId(uuid.uuid4().hex)  # noqa: TID251 - the only place that creates ids

    def seed(self) -> int:
        """Return a positive seed; 0 would always choose the first alternative."""
        return 1 + secrets.randbelow(2**31 - 1)


INLINE_KEYS = ("content", "text")
"""Keys of an object that contains the file's content."""


class InlineFiles:
    """The `ragflow_lg.services.services.Files` for a process without a file store.

    A string is its own content, either plain text or a ``data:`` URI. The content of an object is its ``content`` or
    ``text``, or else its first value that is a ``data:`` URI. Nothing is read from disk or fetched.
    """

    async def read(self, files: Sequence[Any]) -> list[str]:
        """Return the text or ``data:`` URI of each file.

        Raises:
            ServiceError: for a file without content, since there is no store to read it from.
        """
        return [self._content(number, file) for number, file in enumerate(files, 1)]

    async def load(self, file: Any) -> FileContent | None:
        """Return the bytes of a ``data:`` URI, alone or in an object, and None for anything else.

        Raises:
            ServiceError: if the URI is damaged.
        """
        return inline_bytes(file)

    def _content(self, number: int, file: Any) -> str:
        if (content := inline_content(file)) is not None:
            return content
        advice = 'Send the text itself as {"name": …, "content": …}, or an image as a data: URI.'
        if not isinstance(file, Mapping):
            raise ServiceError(f"File {number} is not a file but of type {type(file).__name__}. {advice}")
        fields = cast("Mapping[str, Any]", file)
        name = fields.get("name") or fields.get("id")
        which = f"File {number}, {name!r:.80}," if name else f"File {number}"
        raise ServiceError(f"{which} has no content, and no file store is configured. {advice}")


def inline_content(file: Any) -> str | None:
    """Return the content that a file contains itself, or None."""
    if isinstance(file, str):
        return file
    if not isinstance(file, Mapping):
        return None
    fields = cast("Mapping[str, Any]", file)
    for key in INLINE_KEYS:
        if isinstance(fields.get(key), str):
            return fields[key]
    return next((value for value in fields.values() if isinstance(value, str) and value.startswith("data:")), None)


def inline_bytes(file: Any) -> FileContent | None:
    """Return the bytes of a ``data:`` URI, alone or in an object, or of an object's text; None for anything else.

    Raises:
        ServiceError: if the URI is damaged.
    """
    content = inline_content(file)
    if content is None:
        return None
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", file) if isinstance(file, Mapping) else {}
    name = str(fields.get("name") or "")
    if not content.startswith("data:"):
        return FileContent(name, content.encode("utf-8", "replace")) if name else None
    head, _, body = content.partition(",")
    try:
        data = base64.b64decode(body, validate=True) if head.endswith(";base64") else unquote_to_bytes(body)
    except ValueError:
        raise ServiceError(f"The file {name or 'of the data: URI'!r} is damaged: it is not Base64.") from None
    return FileContent(name or f"uploaded{'.csv' if 'csv' in head else '.xlsx'}", data)


class MemoryResultCache:
    """The most recently used results, up to a total size. Nothing leaves the process.

    Keys are the tool, its configuration and the arguments, hashed with a per-process secret. Calls with different
    credentials never share a result, and no credential can be recovered from a key.
    """

    def __init__(self, seconds: Mapping[str, float], clock: Clock, *, max_bytes: int = 32 * 1024 * 1024) -> None:
        """``seconds`` maps tool names or patterns to the lifetime of their results; the first match counts."""
        self._lifetimes = {ToolPermits((pattern,)): lifetime for pattern, lifetime in seconds.items()}
        self._clock = clock
        self._max_bytes = max_bytes
        self._results = SizedCache[bytes, tuple[str, float]](max_bytes)
        """JSON, and until when it is used."""
        self._secret = secrets.token_bytes(32)

    def covers(self, names: Sequence[str]) -> bool:
        """Return whether results from the tool with these names are cached."""
        return self._lifetime(names) > 0

    async def find(
        self, names: Sequence[str], configuration: JsonValue, arguments: JsonValue
    ) -> tuple[bool, JsonValue]:
        """Return whether a result from the tool with these names is cached, and a copy of the result."""
        text, expires_s = self._results.get(self._key(names, configuration, arguments)) or ("", -math.inf)
        return (True, json.loads(text)) if expires_s > self._clock.monotonic() else (False, None)

    async def put(
        self, names: Sequence[str], configuration: JsonValue, arguments: JsonValue, result: JsonValue
    ) -> None:
        """Cache a JSON result if the tool has a lifetime and the result fits."""
        lifetime = self._lifetime(names)
        if lifetime <= 0:
            return
        key, text = self._key(names, configuration, arguments), json.dumps(result, ensure_ascii=False)
        size = len(text.encode("utf-8", "replace")) + OVERHEAD_BYTES
        if size <= self._max_bytes:
            self._results.put(key, (text, self._clock.monotonic() + lifetime), size)

    def _lifetime(self, names: Sequence[str]) -> float:
        return next((seconds for permits, seconds in self._lifetimes.items() if permits.permits(names)), 0.0)

    def _key(self, names: Sequence[str], configuration: JsonValue, arguments: JsonValue) -> bytes:
        text = json.dumps([list(names), configuration, arguments], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode("utf-8", "replace"), key=self._secret, digest_size=16).digest()
