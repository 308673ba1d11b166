"""A canvas with all safe changes does here what it did before."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler.ragflow_1 import examine, fix_canvas
from ragflow_lg.server.assembly.library import catalog
from tests.conftest import FIXTURES, SHARED
from tests.harness.cases import Case, read_cases
from tests.harness.play import TurnResult, play
from tests.harness.rows import each_row

CASES = {
    case.id: case
    for folder in (FIXTURES / "conformance", SHARED / "conformance" / "cases")
    for case in read_cases(folder)
    if "dsl" in case.data
}

CHOSEN = (
    "agent-user-prompt compat-fillup-checked iteration-aliases own-categorize-fallback own-invoke-refused",
    "own-llm-structured own-llm-structured-fails own-retrieval-citations own-retrieval-tool",
    "own-switch-logical-operators own-unrun-null ref-brace-tolerance row-assigner-set row-braces row-category-lines",
    "row-citations-once row-guidelines-apart",
)
CHOSEN_NAMES = [name for line in CHOSEN for name in line.split() if name in CASES]
"""Cases for each rule that changes a case."""

RENAMED = {"StringTransform:Start": "start", "Message:End": "end", "Begin:Start": "start", "Switch:Start": "start"}


def summarize(turns: list[TurnResult]) -> str:
    """Return what a client and a model see of a session, without ports and ids of calls."""
    parts = [
        (turn.answer, turn.error, list(map(_without_inputs, turn.frames)), turn.model.requests, turn.received)
        for turn in turns
    ]
    text = re.sub(r"127\.0\.0\.1:\d+|\b[0-9a-f]{32,}\b", "", repr(parts))
    for new, old in RENAMED.items():
        text = text.replace(new, old)
    return text


def _without_inputs(frame: dict[str, Any]) -> dict[str, Any]:
    """Return a frame without inputs: they have the names of references, which a rule may change."""
    return {key: value for key, value in frame.items() if key != "inputs"}


def fix(case: Case) -> tuple[Case, set[str]]:
    """Return a case with all changes, and the rules that made them."""
    text, mended = fix_canvas(json.dumps(case.data["dsl"], ensure_ascii=False), catalog())
    return Case({**case.data, "dsl": json.loads(text)}), {finding.rule.id for finding in mended}


@each_row("name", CHOSEN_NAMES)
async def test_a_fixed_case_plays_as_before(name: str) -> None:
    case = CASES[name]
    fixed, rules = fix(case)
    assert rules
    try:
        before = await play(case)
    except CompileError:
        with pytest.raises(CompileError):
            await play(fixed)
        return
    assert summarize(await play(fixed)) == summarize(before)


@pytest.mark.slow
def test_the_chosen_cases_meet_every_rule_that_changes_a_case() -> None:
    rules: dict[str, set[str]] = {}
    for name, case in CASES.items():
        with suppress(CompileError):
            rules[name] = fix(case)[1]
    chosen = [rules[name] for name in CHOSEN_NAMES]
    assert set[str]().union(*rules.values()) == set[str]().union(*chosen)


@pytest.mark.slow
def test_fixing_again_changes_nothing(shared_corpus: Path) -> None:
    unstable: list[str] = []
    for path in sorted(shared_corpus.rglob("*.json")):
        if path.parent.name in ("agent", "graph_only", "legacy") and "TitleChunker" not in path.read_text("utf-8"):
            text, _ = fix_canvas(path.read_bytes(), catalog())
            left = [f.rule.id for f in examine(text, catalog(), every_rule=True) if f.is_fixable]
            if left or fix_canvas(text, catalog())[0] != text:
                unstable.append(f"{path.name} {left}")
    assert unstable == []
