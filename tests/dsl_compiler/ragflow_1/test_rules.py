"""Every rule about RAGFlow 1.0 meets one canvas and not another one."""

import json
from typing import Any

from ragflow_lg.dsl_compiler.ragflow_1 import RULES, examine, fix_canvas
from ragflow_lg.server.assembly.library import catalog
from tests.conftest import FIXTURES
from tests.dsl_compiler.ragflow_1.short_canvas import expand
from tests.harness.ragflow_1_table import PAGE, replace_part, rule_lines

CASES: dict[str, dict[str, Any]] = json.loads((FIXTURES / "ragflow_1" / "rules.json").read_text("utf-8"))


def met(short: dict[str, Any]) -> set[str]:
    return {finding.rule.id for finding in examine(expand(short), catalog(), every_rule=True)}


def test_every_rule_meets_its_canvas_and_not_another_one() -> None:
    assert CASES.keys() == RULES.keys()
    assert [id_ for id_, case in CASES.items() if id_ not in met(case["meets"]) or id_ in met(case["meets_not"])] == []


def test_a_rule_with_a_fix_mends_its_canvas() -> None:
    left: list[str] = []
    for id_, rule in RULES.items():
        if rule.fix:
            text, mended = fix_canvas(json.dumps(expand(CASES[id_]["meets"])), catalog())
            if id_ not in {each.rule.id for each in mended} or id_ in met_text(text):
                left.append(id_)
    assert left == []


def met_text(text: str) -> set[str]:
    return {finding.rule.id for finding in examine(text, catalog(), every_rule=True)}


def test_the_page_lists_the_rules_as_they_are() -> None:
    text = PAGE.read_text("utf-8")
    assert replace_part(text, "rules", rule_lines()) == text, "run python -m tests.harness.ragflow_1_table"
