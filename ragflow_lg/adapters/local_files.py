"""Uploaded files without a file store: they travel inside the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.errors import ServiceError

__all__ = ["InlineFiles"]


class InlineFiles:
    """The `ragflow_lg.services.services.Files` of a process without a file store.

    A text is its own content, be it plain or a ``data:`` URI. A map gives its ``content`` or ``text``, else the
    first of its values that is a ``data:`` URI. Nothing is ever read from a disk or fetched.
    """

    async def read(self, files: Sequence[Any], layout_recognize: str) -> list[str]:
        """Give each file's text or ``data:`` URI.

        Raises:
            ServiceError: for a file that is only named, since there is no store to look in.
        """
        return [_content(file) for file in files]


def _content(file: Any) -> str:
    if isinstance(file, str):
        return file
    if isinstance(file, Mapping):
        held = cast("Mapping[str, Any]", file)
        for key in ("content", "text"):
            if isinstance(held.get(key), str):
                return held[key]
        for value in held.values():
            if isinstance(value, str) and value.startswith("data:"):
                return value
        name = held.get("name") or held.get("id")
        which = f"The file {name!r}" if name else "A file"
    else:
        which = f"A file given as {type(file).__name__}"
    raise ServiceError(
        f"{which} cannot be read: no file store is configured. "
        'Send the text itself as {"name": …, "content": …}, or an image as a data: URI.'
    )
