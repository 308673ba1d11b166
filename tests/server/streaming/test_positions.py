from __future__ import annotations

import pytest

from ragflow_lg.errors import StreamPositionError
from server.streaming.positions import position_of


@pytest.mark.parametrize(
    ("header", "first", "after"),
    [(None, None, 0), ("", "", 0), ("0", None, 0), (" 12 ", None, 12), (None, "0", 0), (None, "1", 0), ("3", "9", 3)],
)
def test_where_to_go_on(header: str | None, first: str | None, after: int) -> None:
    assert position_of(header, first) == after


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "٣", "9" * 16, "1\r\nX-Evil: 1", "a" * 4000])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(StreamPositionError, match="has to be the number of an event") as raised:
        position_of(text)
    assert len(str(raised.value)) < 200
    with pytest.raises(StreamPositionError, match=r"^from "):
        position_of(None, text)
