from ragflow_lg.base.markdown_table import MAX_CELL_CHARS, markdown_pairs


def test_a_cell_stays_one_cell() -> None:
    table = markdown_pairs({"a": "x | y\n| z \\", "b": "b" * (MAX_CELL_CHARS + 5)})
    assert table.splitlines()[2] == "| a | x \\| y \\| z \\\\ |"
    assert len(table.splitlines()[3]) == MAX_CELL_CHARS + len("| b |  |")
