"""Random canvases have the results that RAGFlow's engine recorded, except in the fields of one fidelity row."""

import re
from pathlib import Path

import pytest

from ragflow_lg.dsl.compatibility import RAGFLOW
from tests.harness.agreement import find_differing_fields
from tests.harness.cases import Case, read_cases
from tests.harness.rows import each_row

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "fixtures" / "random_canvases"
PAGE = Path(__file__).parents[1] / "docs" / "fidelity.md"
CASES = list(read_cases(FOLDER))
NONE: dict[str, list[str]] = {"native": [], "compat": []}


@each_row("case", CASES)
def test_a_random_canvas_differs_only_in_the_fields_of_its_row(case: Case) -> None:
    with_options = case.with_compatibility(RAGFLOW)
    found = {"native": sorted(find_differing_fields(case)), "compat": sorted(find_differing_fields(with_options))}
    assert found == case.data.get("differs", NONE)


def test_every_row_is_documented() -> None:
    rows = set(re.findall(r"^\| ([a-z0-9-]+) \|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert {case.data["row"] for case in CASES if "row" in case.data} <= rows


def test_rows_with_an_option_have_ragflows_result_with_it() -> None:
    rows = {case.data["row"]: set(case.data["differs"]["compat"]) for case in CASES if "row" in case.data}
    agreeing = {row for row, fields in rows.items() if fields <= {"inputs"}}
    marked = set(re.findall(r"^\| ([a-z0-9-]+) \|.*\(`old_values`\) \|", PAGE.read_text("utf-8"), re.MULTILINE))
    optional = {"fillup-checked", "jinja-values", "loop-no-condition", "structured-checks"}
    assert agreeing == optional | (marked & rows.keys())
