"""A canvas with all safe changes does here what it did before."""

import json
import re
from collections import Counter
from collections.abc import Iterator
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

CASES = [
    case
    for folder in (FIXTURES / "conformance", SHARED / "conformance" / "cases")
    for case in read_cases(folder)
    if "dsl" in case.data
]

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


def choose() -> Iterator[tuple[Case, Case]]:
    """Yield cases with and without their changes, three for each rule."""
    counts: Counter[str] = Counter()
    for case in CASES:
        try:
            text, mended = fix_canvas(json.dumps(case.data["dsl"], ensure_ascii=False), catalog())
        except CompileError:
            continue
        rules = {finding.rule.id for finding in mended}
        if any(counts[rule] < 3 for rule in rules):
            counts.update(rules)
            yield case, Case({**case.data, "dsl": json.loads(text)})


CHOSEN = list(choose())


@each_row(("case", "fixed"), CHOSEN)
async def test_a_fixed_case_plays_as_before(case: Case, fixed: Case) -> None:
    try:
        before = await play(case)
    except CompileError:
        with pytest.raises(CompileError):
            await play(fixed)
        return
    assert summarize(await play(fixed)) == summarize(before)


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
