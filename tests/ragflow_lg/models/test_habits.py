"""The table of models' habits in docs/models.md names the test that holds each of them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "docs" / "models.md").read_text("utf-8").partition("### Habits of models")[2]
ROWS = re.findall(r"^\| (?!habit |---).* \| `(\S+)::(\w+)` \|$", TABLE, re.MULTILINE)


def test_each_habit_is_held_by_a_test_that_exists() -> None:
    assert len(ROWS) == TABLE.count("\n| ") - 2 >= 25
    files = {file: (ROOT / "tests" / "ragflow_lg" / file).read_text("utf-8") for file, _ in ROWS}
    assert [f"{file}::{name}" for file, name in ROWS if f"def {name}(" not in files[file]] == []
