from __future__ import annotations

import pytest
from sqlalchemy.dialects import sqlite

from server.database.models import LargeText


@pytest.mark.parametrize(
    ("text", "kept"), [("a\x00b", "ab"), ("\ud83d\ude00", "??"), ("😀\n", "😀\n"), ("", ""), (None, None)]
)
def test_what_no_database_takes_is_left_out(text: str | None, kept: str | None) -> None:
    assert LargeText().process_bind_param(text, sqlite.dialect()) == kept
