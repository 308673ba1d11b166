"""Spreadsheets for tests."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import openpyxl


def book(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    """Return an XLSX file."""
    library: Any = openpyxl
    workbook = library.Workbook(write_only=True)
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()


def cells(content: bytes) -> dict[str, list[list[tuple[Any, str]]]]:
    """Return the values of an XLSX file with openpyxl's types: ``s`` is a text, ``f`` a formula."""
    library: Any = openpyxl
    workbook = library.load_workbook(io.BytesIO(content))
    return {
        sheet.title: [[(cell.value, cell.data_type) for cell in row] for row in sheet.iter_rows()]
        for sheet in workbook.worksheets
    }


def joined(written: Mapping[str, Any]) -> bytes:
    """Return the file that a task has written."""
    return b"".join(map(base64.b64decode, written["parts"]))
