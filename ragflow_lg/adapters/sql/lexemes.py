"""The words and signs of an SQL text, as sqlglot reads them in one dialect."""

from __future__ import annotations

from typing import Any, NamedTuple

MAX_COMMANDS = 3
"""sqlglot takes what follows some words, such as EXPLAIN, as one text. It is read on, at most so often in a row."""


class Lexeme(NamedTuple):
    """A word or sign. ``text`` is without its quotes; ``start`` and ``end`` are offsets of its source."""

    kind: str
    """sqlglot's name for its type."""
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The upper-case word or sign; ``""`` for what is quoted, and for numbers."""
        return "" if self.kind in _QUOTED else self.text.upper()


_QUOTED = frozenset(
    {
        "BIT_STRING",
        "BYTE_STRING",
        "HEREDOC_STRING",
        "HEX_STRING",
        "IDENTIFIER",
        "NATIONAL_STRING",
        "NUMBER",
        "RAW_STRING",
        "STRING",
        "UNICODE_STRING",
    }
)
_COMMANDS = frozenset({"COMMAND", "EXECUTE", "FETCH", "RENAME", "SHOW", "DESCRIBE", "PRAGMA"})


def read_lexemes(sql: str, dialect: str, *, commands: int = 0) -> list[Lexeme]:
    """Return the lexemes of a text, without comments.

    Raises:
        ValueError: if the text is not SQL.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    lexemes: list[Lexeme] = []
    try:
        tokens = list[Any](Dialect.get_or_raise(dialect or None).tokenize(sql))
    except SqlglotError as error:
        raise ValueError(str(error)) from error
    for token in tokens:
        before = lexemes[-1] if lexemes else None
        kind: str = token.token_type.name
        if before is not None and before.kind in _COMMANDS and kind == "STRING":
            start = sql.find(token.text, before.end + 1)
            if start >= 0 and not sql[before.end + 1 : start].strip():
                if commands >= MAX_COMMANDS:
                    raise ValueError("commands in commands")
                inner = read_lexemes(token.text, dialect, commands=commands + 1)
                lexemes += [part._replace(start=part.start + start, end=part.end + start) for part in inner]
                continue
        lexemes.append(Lexeme(kind, token.text, token.start, token.end))
    return lexemes
