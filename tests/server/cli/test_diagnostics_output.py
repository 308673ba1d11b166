import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.diagnostics import CODES, Diagnostic
from ragflow_lg.server.cli.diagnostics_output import to_sarif


def result_of(path: Path, diagnostic: Diagnostic) -> dict[str, Any]:
    (run,) = json.loads(to_sarif([(path, (diagnostic,))]))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(CODES)
    (result,) = run["results"]
    return result


def test_a_diagnostic_is_a_result() -> None:
    diagnostic = Diagnostic("route-empty", "error", "/components/a", "Nothing left.", "Add a target.", line=7, column=3)
    assert result_of(Path("canvas.json"), diagnostic) == {
        "ruleId": "route-empty",
        "level": "error",
        "message": {"text": "Nothing left. Add a target."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "canvas.json"},
                    "region": {"startLine": 7, "startColumn": 3},
                },
                "logicalLocations": [{"fullyQualifiedName": "/components/a"}],
            }
        ],
    }


def test_a_diagnostic_of_the_whole_document_is_located_at_its_start() -> None:
    result = result_of(Path("a.json"), Diagnostic("document-rewritten", "info", "", "Older."))
    assert result["level"] == "note"
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1, "startColumn": 1}


@pytest.mark.parametrize(
    ("path", "uri"), [("my canvas#1.json", "my%20canvas%231.json"), ("/a b/c.json", "file:///a%20b/c.json")]
)
def test_a_path_is_a_uri(path: str, uri: str) -> None:
    result = result_of(Path(path), Diagnostic("route-empty", "warning", "", "x"))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_no_diagnostics_are_a_run_without_results() -> None:
    assert json.loads(to_sarif([]))["runs"][0]["results"] == []
