import io
from typing import Any

import openpyxl
from hypothesis import given, settings

from ragflow_lg.base.spreadsheets.tables import Table
from ragflow_lg.integrations.documents.markdown_document import clean_text
from ragflow_lg.integrations.documents.xlsx_file import read_sheets, write_xlsx
from tests.integrations.documents.written import HOSTILE_TEXTS

TABLE = "| a | b |\n|---|---|\n| 1 |  |\n"


def read(text: str) -> dict[str, list[tuple[Any, ...]]]:
    book = openpyxl.load_workbook(io.BytesIO(write_xlsx(text)))
    return {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets}


def test_every_table_becomes_a_sheet_named_after_the_line_before_it() -> None:
    text = f"# Sales\n{TABLE}\nText\n\n{TABLE}\nTable 3: x/y\n\n{TABLE}\n## Sales\n{TABLE}"
    assert list(read(text)) == ["Sales", "Table_2", "Table 3 x_y", "Sales_1"]
    assert read(text)["Sales"] == [("a", "b"), (1, None)]


def test_cells_are_numbers_or_text() -> None:
    row = "| 12 | -1.5 | 1,234.5 | 007 | 1e3 | x | =1+1 | 12345678901234567890 | a\\|b |"
    (table,) = read_sheets("|" + "h|" * 9 + "\n" + row)
    assert table.rows == [[12, -1.5, 1234.5, "007", 1000.0, "x", "=1+1", "12345678901234567890", "a|b"]]


def test_empty_cells_stay_and_rows_fit_the_head() -> None:
    assert read_sheets("| a | b |\n| | 2 | 3 |\n| 4 |") == [Table("Table_1", "", ["a", "b"], [["", 2], [4, ""]])]


def test_a_text_without_tables_becomes_a_cell() -> None:
    assert read("only text") == {"Data": [("Content",), ("only text",)]}


@settings(max_examples=20, deadline=None)
@given(HOSTILE_TEXTS)
def test_every_text_becomes_a_workbook_without_formulas(text: str) -> None:
    book = openpyxl.load_workbook(io.BytesIO(write_xlsx(clean_text(text))))
    assert not [cell for sheet in book for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]
