"""Splitting SQL into statements, binding values, and checking that a statement only reads.

The text is read with sqlglot, in the dialect of the database. Comments are not sent, so that nothing can hide in what
the database reads differently, such as MySQL's executable comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct

from ragflow_lg.adapters.sql.read_only import NotSqlError, kind_of, read_tokens, refusal_of
from ragflow_lg.base.thinking import CLOSING, strip_thinking
from ragflow_lg.base.values import to_text
from ragflow_lg.base.worker_tasks import worker_task

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

MAX_STATEMENTS = 100
MAX_SQL_CHARS = 200_000
_CITATION = re.compile(r"\[ID:[0-9]+\]")
_QUOTED_OR_CITATION = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)|\[ID:[0-9]+\]""")
_BLOCK = re.compile(
    r"(?P<fence>`{3,}|^[ \t]*~{3,})"
    r"[ \t]*(?:(?!(?:select|with|values|table|show|explain|desc|describe|pragma)\b)(?P<language>[\w+#.-]*)[^\S\n]*\n"
    r"|(?P<dialect>\w*sql\w*\b)?)"
    r"(?P<sql>.*?)(?:(?P=fence)|\Z)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
"""A fenced block in Markdown, which may be on one line, or without its end."""
_LITERALS = frozenset({"STRING", "NATIONAL_STRING"})

Part: TypeAlias = str | list[Any]
"""A piece of a statement's text, or the pieces of a bound value: texts, and marks as lists with one text."""


class Statement(Struct, frozen=True):
    """One statement. A bound value is a list in ``parts``; ``refusal`` says why it is not a mere read, if it is not."""

    text: str
    """The text as it was written, for messages."""
    parts: Sequence[Any] = ()
    refusal: str = ""
    error: str = ""
    """Why it cannot be read, in which case it has no parts."""
    is_sql: bool = True
    """Whether it can be parsed. If not, ``refusal`` says why, and only a connection that may write gets to see it."""


def clean(sql: str) -> str:
    r"""Return the SQL of a model's answer: without code fences, citations and thinking.

    If there is text around a fenced block, the block is the SQL. Source: RAGFlow's ``agent/tools/exesql.py``, which
    removes fences and citations.

    Raises:
        NotSqlError: if there is text around several blocks.

    >>> clean("This reads one:\n```sql\nSELECT 1\n```\nIt has no table. [ID:3]"), clean("```SELECT 1```")
    ('SELECT 1', 'SELECT 1')
    """
    if len(sql) > MAX_SQL_CHARS:
        return sql
    text = strip_thinking(sql) if CLOSING in sql else sql
    blocks = [block for block in _BLOCK.finditer(text) if block["sql"].strip()]
    around = _BLOCK.sub(lambda block: " " if block["sql"].strip() else "", text)
    if not blocks:
        return _without_citations(around)
    if re.search(r"\w", _CITATION.sub("", around)) and len(blocks) > 1:
        of_sql = [block for block in blocks if "sql" in (block["language"] or block["dialect"] or "").lower()]
        if len(of_sql) != 1:
            raise NotSqlError(
                f"It is a text with {len(blocks)} fenced blocks. Write the SQL into a single block, or nothing but SQL."
            )
        blocks = of_sql
    return "\n;\n".join(_without_citations(block["sql"]) for block in blocks)


def _without_citations(sql: str) -> str:
    """Remove citations, but not from what is quoted, where they are a value to look for."""
    return _QUOTED_OR_CITATION.sub(lambda match: match[1] or "", sql).strip()


@worker_task("Reading the SQL", seconds=5, small_size=0)
def read_statements(sql: str, dialect: str, marks: list[str]) -> list[dict[str, Any]]:
    """Split SQL into the fields of `Statement`; ``marks`` are the words that stand for values."""
    if len(sql) > MAX_SQL_CHARS:
        return [_fields(Statement(sql[:200] + "…", error=f"The SQL has more than {MAX_SQL_CHARS:,} characters."))]
    try:
        statements = list(_statements(sql, dialect, marks))
    except (ValueError, RecursionError):
        statements = [
            Statement(sql, error="It cannot be read as SQL; perhaps a quote is not closed.", refusal="unread")
        ]
    if len(statements) > MAX_STATEMENTS:
        statements = [Statement(sql[:200] + "…", error=f"There are more than {MAX_STATEMENTS} statements.")]
    return [_fields(statement) for statement in statements]


def _fields(statement: Statement) -> dict[str, Any]:
    return {name: getattr(statement, name) for name in statement.__struct_fields__}


def _statements(sql: str, dialect: str, marks: Sequence[str]) -> Iterator[Statement]:
    group: list[Token] = []
    for token in [*read_tokens(sql, dialect), None]:
        if token is not None and kind_of(token) != "SEMICOLON":
            group.append(token)
            continue
        if group:
            yield _statement(sql, group, dialect, marks)
            group = []


def _statement(sql: str, tokens: Sequence[Token], dialect: str, marks: Sequence[str]) -> Statement:
    text = sql[tokens[0].start : tokens[-1].end + 1]
    parts: list[Part] = []
    for index, token in enumerate(tokens):
        if index:
            gap = sql[tokens[index - 1].end + 1 : token.start]
            parts.append(gap if not gap.strip() else " ")
        source = sql[token.start : token.end + 1]
        mark = next((mark for mark in marks if mark in source), "")
        if not mark:
            parts.append(source)
            continue
        value = _value(token, source, marks)
        if value is None:
            return Statement(text, error=_NO_VALUE.format(source[:80]), refusal="unbound")
        parts.append(value)
    checked = "".join(part if isinstance(part, str) else "?" for part in parts)
    try:
        return Statement(text, parts, refusal_of(checked, read_tokens(checked, dialect), dialect))
    except NotSqlError as error:
        return Statement(text, parts, str(error), is_sql=False)


_NO_VALUE = (
    "A reference stands in {!r}, where no value can stand. With bind_references, references can only be values; a part "
    "of the statement itself cannot be bound."
)


def _value(token: Token, source: str, marks: Sequence[str]) -> list[Any] | None:
    """Return the pieces of the value that a token stands for; None if no value can stand there."""
    if source in marks:
        return [[source]]
    if kind_of(token) not in _LITERALS:
        return None
    pattern = "|".join(map(re.escape, marks))
    pieces = re.split(f"({pattern})", token.text)
    return [[piece] if piece in marks else piece for piece in pieces if piece]


def bind(parts: Sequence[Any], values: Mapping[str, Any], mark: str) -> tuple[str, tuple[Any, ...]]:
    """Return the text for the driver and the values to bind. ``mark`` is the driver's: ``%s`` or ``?``.

    >>> bind(["SELECT ", [["a"]], " LIKE ", ["x", ["b"], "%"]], {"a": 1, "b": "y"}, "%s")
    ('SELECT %s LIKE %s', (1, 'xy%'))
    >>> bind(["SELECT 5 % 2"], {}, "%s")
    ('SELECT 5 % 2', ())
    """
    if all(isinstance(part, str) for part in parts):
        return "".join(parts), ()
    texts: list[str] = []
    bound: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part.replace("%", "%%") if mark == "%s" else part)
            continue
        texts.append(_bind_part(part, "".join(texts[-6:]), values, mark, bound))
    return "".join(texts), tuple(bound)


def _bind_part(part: list[Any], before: str, values: Mapping[str, Any], mark: str, bound: list[Any]) -> str:
    """Append the value of a part and return the marks that stand for it. A list after ``IN (`` becomes its entries."""
    sole = values[part[0][0]] if len(part) == 1 and isinstance(part[0], list) else None
    if isinstance(sole, list) and re.search(r"\bin\s*\(\s*$", before, re.IGNORECASE):
        entries = [_plain(entry) for entry in cast("list[Any]", sole)] or [None]
        bound.extend(entries)
        return ", ".join([mark] * len(entries))
    is_text = len(part) > 1 or not isinstance(part[0], list)
    bound.append("".join(_text(piece, values) for piece in part) if is_text else _plain(sole))
    return mark


def _text(piece: Any, values: Mapping[str, Any]) -> str:
    return piece if isinstance(piece, str) else to_text(values[piece[0]])


def _plain(value: Any) -> Any:
    return to_text(cast("Any", value)) if isinstance(value, list | dict) else value
