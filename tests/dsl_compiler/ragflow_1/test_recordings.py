"""The rules predict what the new engine did when it ran on the recorded cases."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ragflow_lg.dsl_compiler.ragflow_1 import examine
from ragflow_lg.server.assembly.library import catalog
from tests.conftest import FIXTURES, SHARED

FOLDER = SHARED / "conformance_go" / "cases"

CAUSES: dict[str, list[str]] = json.loads((FIXTURES / "ragflow_1" / "causes.json").read_text("utf-8"))
"""The rules that name a cause of the recordings."""

UNSEEN = frozenset(
    [
        # what a scripted model cannot show
        *("sampling-flags-ignored", "sampling-as-text", "llm-prompts-ignored", "llm-history", "agent-user-prompt-wins"),
        # what the recordings do not compare
        *("reference-nontext", "categorize-history-window"),
        # what was added to the canvases before they were played
        *("body-without-parentid", "result-alias", "reserved-id"),
    ]
)
"""Rules whose effect the recordings do not show."""


def recorded() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.json")):
        played = json.loads(path.read_text("utf-8"))
        case = json.loads((SHARED / "conformance" / "cases" / path.name).read_text("utf-8"))
        if played["compared_with_python"] != "not compared":
            yield played, case["dsl"]


pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder ../shared/conformance_go does not exist")


def test_the_cause_of_nearly_every_difference_is_named() -> None:
    unnamed: list[str] = []
    total = 0
    for played, dsl in recorded():
        if played["compared_with_python"] not in ("breaks", "answers differently"):
            continue
        total += 1
        found = {finding.rule.id for finding in examine(dsl, catalog(), every_rule=True)}
        if not any(found & set(CAUSES[cause]) for cause in played["causes"]):
            unnamed.append(f"{played['case']} {played['causes']}")
    assert total > 70
    assert len(unnamed) <= total * 0.1, unnamed


def test_nearly_nothing_is_said_of_cases_that_answer_the_same() -> None:
    alarmed: list[str] = []
    total = 0
    for played, dsl in recorded():
        if played["compared_with_python"] not in ("same", "looks different"):
            continue
        total += 1
        found = {f.rule.id for f in examine(dsl, catalog()) if f.rule.class_ != "looks"} - UNSEEN
        if found:
            alarmed.append(f"{played['case']} {sorted(found)}")
    assert total > 35
    assert len(alarmed) <= total * 0.1, alarmed
