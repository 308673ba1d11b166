"""Each risk on the page about security is met by tests that exist."""

import re

from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
ROW = re.compile(
    r"^\| (?P<risk>(?:LLM|API)\d+) [^|]+\| (?P<how>[^|]+) \| (?P<tests>[^|]+) \| (?P<rest>[^|]+) \|$", re.M
)


def test_every_risk_has_one_row() -> None:
    risks = [row["risk"] for row in ROW.finditer(PAGE)]
    assert risks == [*(f"LLM{number:02}" for number in range(1, 11)), *(f"API{number}" for number in range(1, 11))]


def test_the_tests_exist() -> None:
    for row in ROW.finditer(PAGE):
        files = re.findall(r"`([^`]+\.py)`", row["tests"])
        assert files, row["risk"]
        for file in files:
            assert "def test_" in (ROOT / file).read_text("utf-8"), f"{row['risk']}: {file}"
