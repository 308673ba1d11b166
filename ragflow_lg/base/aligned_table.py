"""Tables in Markdown with aligned columns, as RAGFlow shows rows of a database to models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragflow_lg.base.values import JsonValue, to_text

MIN_PADDING = 2
"""How much wider than its title a column is at least, as in the library that RAGFlow uses."""


def aligned_table(columns: Sequence[str], rows: Sequence[Mapping[str, JsonValue]]) -> str:
    """Return a table. Columns of numbers are aligned to the right, and floats have 6 decimals.

    >>> print(aligned_table(["name", "price"], [{"name": "tea", "price": 2.5}, {"name": "jam", "price": None}]))
    | name   |    price |
    |:-------|---------:|
    | tea    | 2.500000 |
    | jam    |          |
    """
    aligned = [_column(name, [row.get(name) for row in rows]) for name in columns]
    lines = ["|".join(["", *(cells[0] for cells, _ in aligned), ""])]
    lines.append("|".join(["", *(_rule(len(cells[0]), is_right) for cells, is_right in aligned), ""]))
    lines += ["|".join(["", *(cells[index] for cells, _ in aligned), ""]) for index in range(1, len(rows) + 1)]
    return "\n".join(lines)


def _column(name: str, values: Sequence[JsonValue]) -> tuple[list[str], bool]:
    """Return the cells of a column, the title first, and whether they are aligned to the right."""
    present = [value for value in values if value is not None]
    is_number = bool(present) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in present)
    has_floats = is_number and any(isinstance(value, float) for value in present)
    texts = [_cell(value, has_floats=has_floats) for value in values]
    title = _one_line(name)
    width = max(len(title) + MIN_PADDING, *map(len, texts), 0)
    pad = str.rjust if is_number else str.ljust
    return [f" {pad(text, width)} " for text in [title, *texts]], is_number


def _cell(value: JsonValue, *, has_floats: bool) -> str:
    if value is None:
        return ""
    if has_floats and isinstance(value, int | float):
        return f"{value:.6f}"
    return _one_line(str(value) if isinstance(value, bool) else to_text(value))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", "\\|")


def _rule(width: int, is_right: bool) -> str:
    return "-" * (width - 1) + ":" if is_right else ":" + "-" * (width - 1)
