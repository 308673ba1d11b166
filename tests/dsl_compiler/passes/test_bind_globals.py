from typing import Any

import pytest

from tests.fakes.canvas import canvas, diagnostics_of, node, plan_of, text


def start(**document: Any) -> dict[str, Any]:
    return dict(plan_of(canvas({"a": text()}, **document)).globals)


def test_the_known_globals_are_always_there() -> None:
    assert start() == {
        "sys.query": "",
        "sys.user_id": "",
        "sys.conversation_turns": 0,
        "sys.files": [],
        "sys.history": [],
        "sys.date": "",
    }


def test_system_globals_are_emptied_by_type() -> None:
    held = start(globals={"sys.query": "old", "sys.conversation_turns": 7, "sys.flag": True, "sys.map": {"a": 1}})
    assert (held["sys.query"], held["sys.conversation_turns"], held["sys.flag"], held["sys.map"]) == ("", 0, False, {})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ({"type": "number", "value": 3}, 3),
        ({"type": "number"}, 0),
        ({"type": "boolean"}, False),
        ({"type": "object"}, {}),
        ({"type": "array<string>"}, []),
        ({"type": "string"}, ""),
    ],
)
def test_variables_seed_the_environment(variable: dict[str, Any], value: Any) -> None:
    assert start(variables={"x": {"name": "x", **variable}})["env.x"] == value


def test_a_list_of_variables_and_an_undeclared_one() -> None:
    held = start(variables=[{"name": "x", "value": 1}], globals={"env.y": "left over"})
    assert (held["env.x"], held["env.y"]) == (1, "")


def test_a_value_that_is_dropped_is_told() -> None:
    document = canvas({"a": text()}, globals={"env.tone": "plain", "env.left": "", "env.n": 0, "env.kept": 1})
    document["variables"] = {"kept": {"name": "kept", "type": "number", "value": 2}}
    (warning,) = diagnostics_of(document, "global-undeclared")
    assert (warning.severity, warning.pointer) == ("warning", "/globals/env.tone")
    assert "'env.tone' is dropped" in warning.message
    assert "under variables" in warning.hint


def test_a_strange_global_is_left_out() -> None:
    document = canvas({"a": text()}, globals={"other": 1})
    assert "other" not in plan_of(document).globals
    assert diagnostics_of(document, "component-dropped")


def test_the_form_of_begin() -> None:
    begin = node("Begin", {"inputs": {"n": {"name": "Number", "type": "integer", "optional": True}, "x": "odd"}}, ["a"])
    number, odd = plan_of(canvas({"begin": begin, "a": text()})).form
    assert (number.label, number.type, number.is_optional) == ("Number", "integer", True)
    assert (odd.label, odd.type) == ("x", "line")
