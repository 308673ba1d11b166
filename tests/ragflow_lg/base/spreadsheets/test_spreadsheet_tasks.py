"""Reading, merging and writing spreadsheets, also hostile ones."""

import datetime
import io
import zipfile
from typing import Any

import pytest

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.spreadsheets import reading, tables, writing
from ragflow_lg.base.spreadsheets.spreadsheet_tasks import (
    Merging,
    Reading,
    convert_spreadsheets,
    merge_spreadsheets,
    read_spreadsheets,
    write_spreadsheet,
)
from tests.harness.rows import each_row
from tests.ragflow_lg.base.spreadsheets.books import book, cells, joined

PEOPLE = book({"People": [["id", "name"], [1, "Ann"], [None, None], [2, None]], "Cities": [["city"], ["Rome"]]})


def read(content: bytes, name: str = "a.xlsx", sheets: str = "all", max_rows: int | None = None) -> dict[str, Any]:
    return read_spreadsheets(Reading([(name, content)], sheets, max_rows))


def test_sheets_are_read_as_rows_with_a_summary_and_markdown() -> None:
    result = read(PEOPLE)
    assert result["data"] == {
        "a.xlsx_People": [{"id": 1, "name": "Ann"}, {"id": 2, "name": None}],
        "a.xlsx_Cities": [{"city": "Rome"}],
    }
    assert result["summary"].splitlines() == [
        "**a.xlsx_People**: 2 rows, 2 columns (id, name)",
        "**a.xlsx_Cities**: 1 rows, 1 columns (city)",
    ]
    assert result["markdown"].startswith("### a.xlsx_People\n\n| id | name |\n| --- | --- |\n| 1 | Ann |\n| 2 |  |\n")


@each_row(
    ("sheets", "names"),
    [("first", ["a.xlsx"]), ("Cities, Nowhere", ["a.xlsx"]), ("Cities,People", ["a.xlsx_Cities", "a.xlsx_People"])],
)
def test_sheets_can_be_selected(sheets: str, names: list[str]) -> None:
    assert list(read(PEOPLE, sheets=sheets)["data"]) == names


def test_columns_without_names_and_repeated_ones_get_names() -> None:
    content = book({"S": [["Report"], ["a", "a", 1], [datetime.datetime(2026, 1, 2), True, "#DIV/0!"]]})
    row = {"Report": "2026-01-02 00:00:00", "Unnamed: 1": True, "Unnamed: 2": None}
    assert read(content)["data"]["a.xlsx"][1] == row
    assert read(book({"S": [["a", "b"], ["=1+1", 2]]}))["data"]["a.xlsx"] == [{"a": None, "b": 2}]  # its last result


def test_columns_of_csv_files_have_one_type() -> None:
    content = b"\n\xc3\xa9;code;n;x\n1;007;1.5;\n2;8;-3;a\n\n"
    assert read(content, "t.csv")["data"]["t.csv"] == [
        {"é": 1, "code": "007", "n": 1.5, "x": None},
        {"é": 2, "code": "8", "n": -3.0, "x": "a"},
    ]
    assert read("a\tb\n1\t2\n".encode("utf-16"), "t.tsv")["data"]["t.tsv"] == [{"a": 1, "b": 2}]


def test_more_rows_than_wanted_are_counted() -> None:
    result = read(b"n\n" + b"1\n" * 50, "t.csv", max_rows=3)
    assert len(result["data"]["t.csv"]) == 3
    assert result["summary"] == "**t.csv**: 50 rows, 1 columns (n); data contains the first 3"


@each_row(
    ("name", "content", "problem"),
    [
        ("a.xlsx", b"no zip", "'a.xlsx' cannot be read: it is damaged or not of this type: BadZipFile"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "'a.xls' is not an XLSX or CSV file; save it as one"),
        ("a.xlsx", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512), "'a.xlsx' cannot be read: it has a password or"),
        ("a.csv", b"a\n\xff\xfa\n", "'a.csv' is not UTF-8 text"),
        ("a.csv", b"a\n" + b"x" * 200_000, "'a.csv', row 2: it is not valid CSV: "),
    ],
)
def test_errors_name_the_file_the_sheet_and_the_cell(name: str, content: bytes, problem: str) -> None:
    with pytest.raises(ServiceError) as error:
        read(content, name)
    assert str(error.value).startswith(problem)


def test_a_damaged_sheet_is_named_with_its_row() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(PEOPLE)) as source, zipfile.ZipFile(content, "w") as target:
        for part in source.namelist():
            data = source.read(part)
            target.writestr(part, data.replace(b"<v>2</v>", b"<v>2..</v>") if "sheet1" in part else data)
    with pytest.raises(ServiceError, match=r"the sheet 'People' of 'a.xlsx', row 4: it is damaged"):
        read(content.getvalue())


def test_zip_bombs_are_refused_before_they_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_UNPACKED_BYTES", 1_000_000)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * 5_000_000)
    with pytest.raises(ServiceError, match=r"'a.xlsx' cannot be read: its decompressed size of 5,000,000 bytes"):
        read(bomb.getvalue())


def test_too_many_entries_and_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ENTRIES", 100)
    with pytest.raises(ServiceError, match=r"'t.csv', the rows have more than 100 entries.* set max_rows"):
        read(b"n\n" + b"1\n" * 60, "t.csv")
    monkeypatch.setattr(tables, "MAX_CELLS", 100)
    with pytest.raises(ServiceError, match=r"the sheet 'S' of 'a.xlsx', row 26: there are more than 100 cells"):
        read(book({"S": [["a", "b", "c"], *[[1, 2, 3]] * 60]}))


def test_files_are_put_below_each_other() -> None:
    reading = Reading([("a.xlsx", PEOPLE), ("b.csv", b"id,age\n7,30\n")])
    assert merge_spreadsheets(reading, Merging()) == {
        "data": {
            "merged": [
                {"id": 1, "name": "Ann", "city": None, "age": None},
                {"id": 2, "name": None, "city": None, "age": None},
                {"id": None, "name": None, "city": "Rome", "age": None},
                {"id": 7, "name": None, "city": None, "age": 30},
            ]
        },
        "summary": "Merged 3 sources into 4 rows, 4 columns",
        "markdown": "| id | name | city | age |\n| --- | --- | --- | --- |\n| 1 | Ann |  |  |\n| 2 |  |  |  |\n"
        "|  |  | Rome |  |\n| 7 |  |  | 30 |",
    }


def test_files_are_joined_as_pandas_does() -> None:
    reading = Reading([("a.csv", b"k,v\n2,b\n1,a\n,n\n"), ("b.csv", b"v,k\nx,1\ny,1\nz,3\n")])
    result: Any = merge_spreadsheets(reading, Merging("k"))
    assert result["data"]["merged"] == [
        {"k": 1, "v_x": "a", "v_y": "x"},
        {"k": 1, "v_x": "a", "v_y": "y"},
        {"k": 2, "v_x": "b", "v_y": None},
        {"k": 3, "v_x": None, "v_y": "z"},
        {"k": None, "v_x": "n", "v_y": None},
    ]
    with pytest.raises(ServiceError, match=r"'a.csv' has no column 'q' to join on; it has 'k', 'v'"):
        merge_spreadsheets(reading, Merging("q"))


def test_a_text_meets_the_number_that_it_shows() -> None:
    texts = book({"S": [["k", "v"], ["1", "a"], ["02", "b"], ["2.5", "c"]]})
    result: Any = merge_spreadsheets(Reading([("a.xlsx", texts), ("b.csv", b"k,w\n1,x\n2,y\n2.5,z\n")]), Merging("k"))
    found = [(row["v"], row["w"]) for row in result["data"]["merged"]]
    assert set(found) == {("a", "x"), ("b", None), (None, "y"), ("c", "z")}


@each_row(
    ("texts", "values"),
    [
        (["1E5", "2"], ["1E5", "2"]),
        (["+4912", "5"], ["+4912", "5"]),
        (["007", "1"], ["007", "1"]),
        (["1e-07", "-2", "3.50", "1.5E+05"], [1e-07, -2, 3.5, 150000.0]),
        (["-3", "4"], [-3, 4]),
    ],
)
def test_codes_in_a_csv_file_stay_texts(texts: list[str], values: list[Any]) -> None:
    result: Any = read("\n".join(["n", *texts]).encode(), "t.csv")
    assert [row["n"] for row in result["data"]["t.csv"]] == values


HOSTILE = ["=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(1)", "\t=1", "http://a.b", "-5", "+49", "{=1}"]


def test_no_text_becomes_a_formula_or_a_link_in_a_book() -> None:
    content = joined(write_spreadsheet({"S": [{"=head": text} for text in HOSTILE]}, "xlsx", False))
    assert [row[0] for row in cells(content)["S"]] == [("=head", "s"), *((text, "s") for text in HOSTILE)]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    assert b"<f>" not in sheet
    assert b"hyperlink" not in sheet


def test_no_text_becomes_a_formula_in_a_csv_file() -> None:
    content = joined(write_spreadsheet({"S": [{"=head": text} for text in HOSTILE]}, "csv", False)).decode()
    assert content.split("\n")[:-1] == [*(f"'{text}" for text in ("=head", *HOSTILE[:5])), *HOSTILE[5:]]
    sheets: Any = {"S": [{"a": "=1+1"}]}  # on request
    assert cells(joined(write_spreadsheet(sheets, "xlsx", True)))["S"][1] == [("=1+1", "f")]
    assert joined(write_spreadsheet(sheets, "csv", True)) == b"a\n=1+1\n"


def test_values_keep_their_types() -> None:
    rows: Any = [{"n": 1.5, "b": True, "big": 2**60, "l": [1], "none": None, "t": "ab"}]
    content = joined(write_spreadsheet({"a/b?c": rows, "A_B_C": [], "history": [[1]]}, "xlsx", False))
    assert list(cells(content)) == ["a_b_c", "A_B_C_1", "history_"]
    number, texts = [(1.5, "n"), (True, "b")], [(str(2**60), "s"), ("[1]", "s")]
    assert cells(content)["a_b_c"][1] == [*number, *texts, (None, "n"), ("ab", "s")]


def test_text_that_is_no_unicode_is_written() -> None:
    written = write_spreadsheet({"S\ud800": [{"a\ud800": "b\udfff"}]}, "xlsx", False)
    assert cells(joined(written)) == {"S\ufffd": [[("a\ufffd", "s")], [("b\ufffd", "s")]]}


def test_files_are_converted_with_their_times() -> None:
    times = book({"S": [["d", "t"], [datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.time(6, 7)]]})
    written = convert_spreadsheets(Reading([("a.xlsx", times)]), None, "xlsx", False)
    assert (written["sheets"], written["rows"]) == (1, 1)
    moment = [datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.time(6, 7)]
    assert [value for value, _ in cells(joined(written))["S"][1]] == moment
    as_text = joined(convert_spreadsheets(Reading([("a.xlsx", times)]), Merging(), "csv", False))
    assert as_text == b"d,t\n2026-01-02 03:04:05,06:07:00\n"


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServiceError, match=r"the new sheet 'S', cell B2: a text of 40,000 characters exceeds"):
        write_spreadsheet({"S": [{"a": 1, "b": "x" * 40_000}]}, "xlsx", False)
    monkeypatch.setattr(writing, "MAX_ROWS", 3)
    with pytest.raises(ServiceError, match="the new sheet 'S' has more than 3 rows"):
        write_spreadsheet({"S": [[1], [2], [3]]}, "xlsx", False)


@pytest.mark.slow
async def test_many_rows_are_copied_in_bounded_memory() -> None:
    """Twenty thousand rows fit into a quarter of the memory that workers have."""
    content = b"id,name,price\n" + b"".join(b"%d,name %d,1.25\n" % (n, n) for n in range(20_000))
    pool = WorkerPool(1, memory_bytes=256 * 1024 * 1024)
    try:
        reading = Reading([("a.csv", content)])
        written = await pool.run(convert_spreadsheets, reading, None, "xlsx", False)
        again = await pool.run(convert_spreadsheets, Reading([("b.xlsx", joined(written))]), Merging(), "csv", False)
    finally:
        await pool.aclose()
    assert joined(again) == content
