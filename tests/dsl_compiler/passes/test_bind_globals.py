import json
from typing import Any

import pytest

from tests.fakes.canvas import canvas, diagnostics_of, node, plan_of, text
from tests.harness.rows import each_row, read_rows


def initial_globals(**document: Any) -> dict[str, Any]:
    return dict(plan_of(canvas({"a": text()}, **document)).globals)


SYSTEM: dict[str, Any] = {"query": "", "user_id": "", "conversation_turns": 0, "files": [], "history": [], "date": ""}
OLD: dict[str, Any] = {"sys.query": "old", "sys.conversation_turns": 7, "sys.flag": True, "sys.map": {"a": 1}}


def test_system_globals_are_emptied_by_type() -> None:
    system = {f"sys.{name}": value for name, value in SYSTEM.items()}
    assert initial_globals() == system
    assert initial_globals(globals=OLD) == {**system, "sys.flag": False, "sys.map": {}}


@each_row(("variable", "value"), read_rows("variable_values"))
def test_variables_seed_the_environment(variable: dict[str, Any], value: Any) -> None:
    assert initial_globals(variables={"x": {"name": "x", **variable}})["env.x"] == value


def test_variables_may_be_a_list_and_undeclared_globals_are_empty() -> None:
    values = initial_globals(variables=[{"name": "x", "value": 1}], globals={"env.y": "left over"})
    assert (values["env.x"], values["env.y"]) == (1, "")


def test_a_dropped_value_is_reported() -> None:
    document = canvas({"a": text()}, globals={"env.tone": "plain", "env.left": "", "env.n": 0, "env.kept": 1})
    document["variables"] = {"kept": {"name": "kept", "type": "number", "value": 2}}
    (warning,) = diagnostics_of(document, "global-undeclared")
    assert (warning.severity, warning.pointer) == ("warning", "/globals/env.tone")
    assert "'env.tone' is dropped" in warning.message
    assert "under variables" in warning.hint


def test_a_global_with_another_prefix_is_omitted() -> None:
    document = canvas({"a": text()}, globals={"other": 1})
    assert "other" not in plan_of(document).globals
    assert diagnostics_of(document, "component-dropped")


def test_the_fields_of_begin_become_the_form() -> None:
    begin = node("Begin", {"inputs": {"n": {"name": "Number", "type": "integer", "optional": True}, "x": "odd"}}, ["a"])
    number, odd = plan_of(canvas({"begin": begin, "a": text()})).form
    assert (number.label, number.type, number.is_optional) == ("Number", "integer", True)
    assert (odd.label, odd.type) == ("x", "line")


@pytest.mark.parametrize("value", [[0] * 100_001, json.loads("[" * 70 + "]" * 70)])
@pytest.mark.parametrize("is_list", [False, True])
def test_a_variable_with_too_large_a_value_is_an_error(value: Any, is_list: bool) -> None:
    variable = {"name": "a", "type": "array", "value": value}
    document = canvas({"x": text()}, variables=[variable] if is_list else {"a": variable})
    (diagnostic,) = diagnostics_of(document, "document-too-large")
    assert (diagnostic.severity, diagnostic.pointer) == ("error", f"/variables/{0 if is_list else 'a'}/value")
    assert "The value of the variable 'a': A value " in diagnostic.message
