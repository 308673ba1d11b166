from sqlalchemy import String, Text
from sqlalchemy.dialects import sqlite

from ragflow_lg.server.database.tables import LargeText, LineText, Row
from tests.harness.rows import each_row


@each_row(
    ("text", "stored"),
    [("a\x00b", "ab"), ("\ud83d\ude00 \ud83d", "😀 \ufffd"), ("😀\n", "😀\n"), ("", ""), (None, None)],
)
def test_a_large_text_is_stored_without_invalid_characters(text: str | None, stored: str | None) -> None:
    assert LargeText().process_bind_param(text, sqlite.dialect()) == stored


@each_row(
    ("text", "stored"), [("a\x00b", "a\ufffdb"), ("\ud83d", "\ufffd"), ("\ud83d\ude00", "😀"), ("é", "é"), (None, None)]
)
def test_a_line_is_stored_without_invalid_characters(text: str | None, stored: str | None) -> None:
    assert LineText(8).process_bind_param(text, sqlite.dialect()) == stored


def test_every_text_column_accepts_any_text() -> None:
    columns = [column for table in Row.metadata.sorted_tables for column in table.columns]
    bare = [str(column) for column in columns if isinstance(column.type, String | Text)]
    assert bare == []
    assert sum(isinstance(column.type, LineText) for column in columns) > 40
