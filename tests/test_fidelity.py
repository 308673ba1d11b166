"""The page of differences from RAGFlow: its rows, options, diagnostics and cases belong together."""

import re
from pathlib import Path
from typing import NamedTuple

from ragflow_lg.base.diagnostics import CODES
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl.compatibility import BEHAVIOURS, OPTIONS
from tests.conftest import FIXTURES
from tests.harness.cases import Case, read_cases
from tests.harness.deviations import DEVIATIONS
from tests.harness.rows import each_row

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "fidelity.md").read_text("utf-8")
CASES = {case.id: case for case in read_cases(FIXTURES / "conformance")}


class Row(NamedTuple):
    name: str
    cells: tuple[str, ...]
    """RAGFlow, ragflow-lg, why, and how to detect it or, of an option, its name and diagnostic."""
    cases: tuple[str, ...]


def read_rows(text: str) -> list[Row]:
    rows: list[Row] = []
    for line in text.splitlines():
        name, *cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] or [""]
        if re.fullmatch(r"[a-z0-9-]*[a-z0-9][a-z0-9-]*", name) and name != "row":
            rows.append(Row(name, tuple(cells[:-1]), tuple(cells[-1].split(", "))))
    return rows


NAMES = {spec.name for spec in load_catalog()} | {"WebSearch", "LaTeX", "OpenAI", "WebUI"}
ROWS = read_rows(PAGE)
OPTIONAL = read_rows(PAGE.partition("### Options")[2].partition("\n### ")[0])


def test_names_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert sorted(names) == sorted(set(names))
    assert len(names) > 100


@each_row("row", ROWS)
def test_a_row_has_sentences_and_cases(row: Row) -> None:
    assert [cell for cell in row.cells[:3] if not cell.endswith((".", "`)"))] == []
    missing = [
        case for case in row.cases if case not in CASES and not (case.endswith(".py") and (ROOT / case).exists())
    ]
    assert missing == []


@each_row("row", [row for row in ROWS if row not in OPTIONAL])
def test_a_row_says_how_to_detect_it_with_names_that_exist(row: Row) -> None:
    (how,) = row.cells[3:]
    assert len(how) > len("–")
    assert set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", how)) - CODES.keys() == set()
    assert set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", how)) - NAMES == set()


@each_row("row", OPTIONAL)
def test_an_option_has_a_diagnostic_and_a_case_in_both_modes(row: Row) -> None:
    option, code = row.cells[3].strip("`"), row.cells[4].strip("`")
    assert (code, OPTIONS[code]) == (f"differs-{row.name}", option)
    cases = [CASES[name] for name in row.cases if name in CASES]
    assert any(case.option == option and case.data["expect"] != case.data["expect_compat"] for case in cases)


def test_every_option_and_diagnostic_has_a_row() -> None:
    assert {*(row.cells[3].strip("`") for row in OPTIONAL), "old_values"} == set(BEHAVIOURS)
    assert {row.cells[4].strip("`") for row in OPTIONAL} == OPTIONS.keys()


def test_rows_of_old_values_have_a_case_with_ragflows_result() -> None:
    """A row that names the option without its mark follows it in a part only."""
    proven = {case.data["row"] for case in read_cases(FIXTURES / "random_canvases") if has_ragflows_result(case)}
    proven |= {row.name for row in ROWS if any(CASES[id_].option == "old_values" for id_ in row.cases if id_ in CASES)}
    proven -= {row.name for row in OPTIONAL}
    marked = {row.name for row in ROWS if row.cells[1].endswith("(`old_values`)")}
    named = {row.name for row in ROWS if "`old_values`" in row.cells[1]}
    assert (marked - proven, proven - named) == (set(), set())
    assert len(marked) > 30


def has_ragflows_result(case: Case) -> bool:
    """Return whether a random canvas of a row has RAGFlow's result with all options, apart from recorded inputs."""
    return "row" in case.data and set(case.data["differs"]["compat"]) <= {"inputs"}


def test_every_deviation_has_a_row() -> None:
    assert {deviation.row for deviation in DEVIATIONS.values()} - {row.name for row in ROWS} == set()


def test_every_case_about_a_difference_belongs_to_a_row() -> None:
    named = {case for row in ROWS for case in row.cases}
    assert [id_ for id_ in CASES if id_.startswith(("row-", "compat-")) and id_ not in named] == []


@each_row("id_", [id_ for id_, case in CASES.items() if "ragflow" in case.data])
def test_the_result_differs_from_ragflows(id_: str) -> None:
    assert CASES[id_].data["ragflow"] != CASES[id_].data["expect"]
