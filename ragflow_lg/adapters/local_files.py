"""Files that are sent inside the request, for processes without a file store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.errors import ServiceError


class InlineFiles:
    """The `ragflow_lg.services.services.Files` for a process without a file store.

    A string is its own content, either plain text or a ``data:`` URI. The content of an object is its ``content`` or
    ``text``, or else its first value that is a ``data:`` URI. Nothing is read from disk or fetched.
    """

    async def read(self, files: Sequence[Any], layout_recognize: str) -> list[str]:
        """Return the text or ``data:`` URI of each file.

        Raises:
            ServiceError: for a file without content, since there is no store to read it from.
        """
        return [_content(file) for file in files]


def _content(file: Any) -> str:
    if isinstance(file, str):
        return file
    if isinstance(file, Mapping):
        fields = cast("Mapping[str, Any]", file)
        for key in ("content", "text"):
            if isinstance(fields.get(key), str):
                return fields[key]
        for value in fields.values():
            if isinstance(value, str) and value.startswith("data:"):
                return value
        name = fields.get("name") or fields.get("id")
        which = f"The file {name!r}" if name else "A file"
    else:
        which = f"A file of type {type(file).__name__}"
    raise ServiceError(
        f"{which} cannot be read: no file store is configured. "
        'Send the text itself as {"name": …, "content": …}, or an image as a data: URI.'
    )
