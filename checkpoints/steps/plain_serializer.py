"""The serializer of the inner savers. Whatever a store contains, reading gives JSON values, and never any other object.

LangGraph's own serializers turn some maps into objects, and import the modules that a map names.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import orjson
from langgraph.checkpoint.serde.base import SerializerProtocol

_SCALARS = (str, bool, int, float, type(None))


class PlainSerializer(SerializerProtocol):
    """Writes MessagePack, or JSON if ``is_json`` is set; reads both."""

    def __init__(self, *, is_json: bool = False) -> None:
        self._is_json = is_json

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize a JSON value."""
        if obj is None:
            return "null", b""
        if self._is_json:
            return "json", orjson.dumps(obj, option=orjson.OPT_NON_STR_KEYS)
        return "msgpack", msgspec.msgpack.encode(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a stored JSON value.

        Raises:
            ValueError: if the data is anything else.
        """
        kind, stored = data
        if kind == "null":
            return None
        if kind not in ("json", "msgpack"):
            raise ValueError(f"its type {kind!r:.40} is not known")
        try:
            value = orjson.loads(stored) if kind == "json" else _loads_msgpack(stored)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            raise ValueError(f"it is not {kind}: {error}") from None
        return check_plain(value)


def check_plain(value: Any) -> Any:
    """Return a value that consists of maps with texts as keys, lists, texts, numbers and constants.

    Raises:
        ValueError: if it contains anything else.
    """
    parts = [value]
    while parts:
        part: Any = parts.pop()
        if type(part) is dict:
            entries = cast("dict[Any, Any]", part)
            if any(type(key) is not str for key in entries):
                raise ValueError("a name in it is not a text")
            parts += entries.values()
        elif type(part) is list:
            parts += part
        elif type(part) not in _SCALARS:
            raise ValueError(f"it contains a {type(part).__name__}")
    return value


def _loads_msgpack(stored: bytes) -> Any:
    return msgspec.msgpack.decode(stored, ext_hook=_refuse_extension)


def _refuse_extension(code: int, data: memoryview) -> Any:
    raise ValueError(f"it contains an object (extension {code})")
