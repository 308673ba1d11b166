"""Markdown tables, as pandas prints a frame: a column with the row's number or name, then the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragflow_lg.base.values import JsonValue, to_text

MAX_CELL_CHARS = 10_000


def markdown_table(rows: Sequence[Mapping[str, JsonValue]], columns: Sequence[str] = ()) -> str:
    r"""Return a table with one line per row; ``""`` without rows. By default it has every column of any row.

    >>> print(markdown_table([{"a": 1, "b": "x|y"}]))
    |    | a | b |
    | --- | --- | --- |
    | 0 | 1 | x\|y |
    """
    if not rows:
        return ""
    names = list(columns) or list(dict.fromkeys(name for row in rows for name in row))
    lines = [[str(number), *(row.get(name) for name in names)] for number, row in enumerate(rows)]
    return "\n".join(format_cells(cells) for cells in [["  ", *names], ["---"] * (len(names) + 1), *lines])


def markdown_pairs(values: Mapping[str, JsonValue]) -> str:
    """Return a table with one line per name and value.

    >>> print(markdown_pairs({"price": 1.5}))
    |    | 0 |
    | --- | --- |
    | price | 1.5 |
    """
    return "\n".join(format_cells(cells) for cells in [["  ", "0"], ["---", "---"], *values.items()])


def format_cells(cells: Iterable[JsonValue]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(value: JsonValue) -> str:
    if value == "  ":
        return "  "
    text = " ".join(to_text(value)[:MAX_CELL_CHARS].split())
    return text.replace("\\", "\\\\").replace("|", "\\|")
