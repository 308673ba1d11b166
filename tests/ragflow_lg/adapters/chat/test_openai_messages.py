from typing import Any

import pytest

from ragflow_lg.adapters.chat.openai_messages import MAX_CALLS, CallPieces


@pytest.mark.parametrize("has_index", [True, False])
def test_no_part_after_the_last_allowed_call_is_read(has_index: bool) -> None:
    read: list[int] = []

    class Piece(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            read.append(self["number"])
            return super().get(key, default)

    pieces = CallPieces()
    parts = [Piece(number=n, name="look", args="{", index=n if has_index else None) for n in range(MAX_CALLS + 2)]
    assert not pieces.add(parts)
    assert (len(pieces.merge()), max(read)) == (MAX_CALLS, MAX_CALLS)
