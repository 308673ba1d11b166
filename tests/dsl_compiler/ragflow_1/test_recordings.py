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


def test_nearly_every_difference_is_named_and_nearly_nothing_is_said_otherwise() -> None:
    unnamed, alarmed = list[str](), list[str]()
    differing = same = 0
    for played, dsl in recorded():
        found = examine(dsl, catalog(), every_rule=True)
        if played["compared_with_python"] in ("breaks", "answers differently"):
            differing += 1
            if not any({finding.rule.id for finding in found} & set(CAUSES[cause]) for cause in played["causes"]):
                unnamed.append(f"{played['case']} {played['causes']}")
        elif played["compared_with_python"] in ("same", "looks different"):
            same += 1
            if said := {f.rule.id for f in examine(dsl, catalog()) if f.rule.class_ != "looks"} - UNSEEN:
                alarmed.append(f"{played['case']} {sorted(said)}")
    assert (differing > 70, same > 35) == (True, True)
    assert len(unnamed) <= differing * 0.1, unnamed
    assert len(alarmed) <= same * 0.1, alarmed
