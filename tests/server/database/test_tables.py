from __future__ import annotations

import pytest
from sqlalchemy import String, Text
from sqlalchemy.dialects import sqlite

from ragflow_lg.server.database.tables import LargeText, LineText, Row


@pytest.mark.parametrize(
    ("text", "kept"), [("a\x00b", "ab"), ("\ud83d\ude00", "??"), ("😀\n", "😀\n"), ("", ""), (None, None)]
)
def test_what_no_database_takes_is_left_out(text: str | None, kept: str | None) -> None:
    assert LargeText().process_bind_param(text, sqlite.dialect()) == kept


@pytest.mark.parametrize(("text", "kept"), [("a\x00b", "a\ufffdb"), ("\ud83d", "?"), ("é", "é"), (None, None)])
def test_a_line_stays_as_long_as_it_is(text: str | None, kept: str | None) -> None:
    assert LineText(8).process_bind_param(text, sqlite.dialect()) == kept


def test_every_column_of_texts_takes_whatever_it_is_given() -> None:
    columns = [column for table in Row.metadata.sorted_tables for column in table.columns]
    bare = [str(column) for column in columns if isinstance(column.type, String | Text)]
    assert bare == []
    assert sum(isinstance(column.type, LineText) for column in columns) > 40
