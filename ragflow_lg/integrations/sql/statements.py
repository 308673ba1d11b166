"""Splitting SQL into statements, binding values, and checking that a statement only reads.

The text is read with sqlglot, in the dialect of the database. Comments are not sent, so that nothing can hide in what
the database reads differently, such as MySQL's executable comments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ragflow_lg.base.thinking import CLOSING, strip_thinking
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.integrations.sql.read_only import NotSqlError, check_statement, split_tokens

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


class Statement(Struct, frozen=True):
    """One statement: its text as it was written, for messages, and what is sent to the database."""

    text: str
    sent: str = ""
    values: Sequence[Any] = ()
    """The values to bind, for the marks in ``sent``."""
    is_query: bool = False
    """Whether it is a query whose rows can be read one by one."""
    refusal: str = ""
    """Why it is not a mere read, if it is not."""
    is_sql: bool = True
    """Whether it can be parsed. If not, ``refusal`` says why, and only a connection that may write gets to see it."""
    error: str = ""
    """Why it cannot be read at all."""


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
def read_statements(sql: str, dialect: str, values: Mapping[str, JsonValue], mark: str = "?") -> list[dict[str, Any]]:
    """Split SQL into the fields of `Statement`.

    ``values`` are those to bind, by the words that stand for them; ``mark`` is the driver's: ``%s`` or ``?``.
    """
    try:
        if len(sql) > MAX_SQL_CHARS:
            raise NotSqlError(f"The SQL has more than {MAX_SQL_CHARS:,} characters.")
        statements = [_read(sql, tokens, dialect, values, mark) for tokens in split_tokens(sql, dialect)]
        if len(statements) > MAX_STATEMENTS:
            raise NotSqlError(f"There are more than {MAX_STATEMENTS} statements.")
    except NotSqlError as error:
        statements = [Statement(sql if len(sql) <= 200 else f"{sql[:200]}…", error=str(error))]
    return [msgspec.to_builtins(statement) for statement in statements]


def _read(sql: str, tokens: Sequence[Token], dialect: str, values: Mapping[str, JsonValue], mark: str) -> Statement:
    """Return a statement without comments, with marks for its values."""
    text = sql[tokens[0].start : tokens[-1].end + 1]
    parts, bound, end = list[str](), list[Any](), tokens[0].start
    for token in tokens:
        gap, source, end = sql[end : token.start], sql[token.start : token.end + 1], token.end + 1
        parts.append(" " if gap.strip() else gap)
        if any(word in source for word in values):
            found = _values_of(token, source, "".join(parts[-6:]), values)
            if not found:
                return Statement(text, error=_NO_VALUE.format(source[:80]))
            bound += found
            source = ", ".join(_VALUE * len(found))
        parts.append(source)
    joined = "".join(parts)
    sent = joined.replace("%", "%%") if bound and mark == "%s" else joined
    sent = sent.replace(_VALUE, mark)
    try:
        refusal, is_query = check_statement(joined.replace(_VALUE, "?"), tokens, dialect)
    except NotSqlError as error:
        return Statement(text, sent, bound, refusal=str(error), is_sql=False)
    return Statement(text, sent, bound, is_query, refusal)


_VALUE = "\0"
"""Stands for a value while a statement is read. No SQL has it."""
_NO_VALUE = (
    "A reference stands in {!r}, where no value can stand. With bind_references, references can only be values; a part "
    "of the statement itself cannot be bound."
)


def _values_of(token: Token, source: str, before: str, values: Mapping[str, JsonValue]) -> list[Any]:
    """Return what to bind for a token: several values if a list stands after ``IN (``, none if no value can stand."""
    is_text = token.token_type.name in ("STRING", "NATIONAL_STRING")
    name = token.text if is_text else source
    if name in values:
        value = values[name]
        if isinstance(value, list) and re.search(r"\bin\s*\(\s*$", before, re.IGNORECASE):
            return [_plain(entry) for entry in value] or [None]
        return [_plain(value)]
    words = "|".join(map(re.escape, values))
    return [re.sub(words, lambda word: to_text(values[word[0]]), token.text)] if is_text else []


def _plain(value: JsonValue) -> Any:
    return to_text(value) if isinstance(value, list | dict) else value
