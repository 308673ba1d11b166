from typing import Any

from ragflow_lg.base.markdown_table import MAX_CELL_CHARS, markdown_pairs, markdown_table


def test_a_table_has_the_columns_of_all_rows() -> None:
    rows: list[dict[str, Any]] = [{"a": 1, "b": None}, {"c": [1, "x"], "a": True}]
    assert markdown_table(rows).splitlines() == [
        "|    | a | b | c |",
        "| --- | --- | --- | --- |",
        "| 0 | 1 |  |  |",
        '| 1 | true |  | [1, "x"] |',
    ]
    assert markdown_table([]) == ""


def test_a_cell_stays_one_cell() -> None:
    table = markdown_pairs({"a": "x | y\n| z \\", "b": "b" * (MAX_CELL_CHARS + 5)})
    assert table.splitlines()[2] == "| a | x \\| y \\| z \\\\ |"
    assert len(table.splitlines()[3]) == MAX_CELL_CHARS + len("| b |  |")
