"""Values of stored texts; see `ragflow_lg.checkpoints.values.encoding`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import orjson

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.values.expansion import FindBlobs, expand
from ragflow_lg.checkpoints.values.seals import unseal
from ragflow_lg.checkpoints.values.stored_lists import find_lists, read_list


async def decode(text: str, find: FindBlobs, thread: str = "", unread: Collection[str] = ()) -> Any:
    """Return the value that a text encodes.

    The long lists named in ``unread`` become `LongList`, whose blocks of ``thread`` are not read; all others become
    plain lists.

    Raises:
        CheckpointError: if the text is damaged, or a blob is missing.
    """
    stored = unseal(text.encode())
    if unread and b"\x03" in (stored := await expand(stored, find, has_lists=False)):
        marks = find_lists(stored, unread)
        lists = {name: await read_list(mark, thread, find) for name, mark in marks.items()}
        if "" in lists:
            return lists[""]
        rest = stored
        for mark in sorted(marks.values(), key=lambda mark: mark.start(), reverse=True):
            rest = rest[: mark.start()] + b"null" + rest[mark.end() :]
        value = await _expand_and_parse(rest, find)
        if isinstance(value, dict) and all(name in value and value[name] is None for name in lists):
            return {**cast("dict[str, Any]", value), **lists}
    return await _expand_and_parse(stored, find)


async def _expand_and_parse(stored: bytes, find: FindBlobs) -> Any:
    text = await expand(stored, find)
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise DamagedSessionError(f"A stored value cannot be read: {error}.") from None
