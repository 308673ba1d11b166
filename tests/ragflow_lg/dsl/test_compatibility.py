from typing import Any

from ragflow_lg.base.diagnostics import CODES
from ragflow_lg.dsl.compatibility import ALL, BEHAVIOURS, OPTIONS, Compatibility, read_choices
from tests.harness.rows import each_row


def test_a_single_name_takes_precedence_over_all() -> None:
    assert Compatibility().names == ()
    chosen = Compatibility().override({"unchecked_forms": False, ALL: True})
    assert chosen.names == tuple(name for name in BEHAVIOURS if name != "unchecked_forms")
    assert chosen.override({ALL: False}).names == ()
    assert chosen.override({"unchecked_forms": True}).names == BEHAVIOURS


@each_row(
    ("declared", "choices", "problem"),
    [
        (None, {}, ""),
        ("ragflow", {ALL: True}, ""),
        ({"jinja_text": True, ALL: False}, {"jinja_text": True, ALL: False}, ""),
        ("ragflw", {}, "compat should be"),
        (True, {}, "compat should be"),
        ({"jinja": True}, {}, "There is no behaviour 'jinja'."),
        ({"jinja_text": "yes"}, {}, "jinja_text should be true or false, not 'yes'."),
    ],
)
def test_the_choices_of_a_canvas(declared: Any, choices: dict[str, bool], problem: str) -> None:
    found, problems = read_choices(declared)
    assert found == choices
    assert [entry.message[: len(problem)] for entry in problems] == ([problem] if problem else [])


def test_every_behaviour_has_a_diagnostic() -> None:
    assert sorted(OPTIONS.values()) == sorted(BEHAVIOURS)
    assert OPTIONS.keys() == {code for code in CODES if code.startswith("differs-")}
