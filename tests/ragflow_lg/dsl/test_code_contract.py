"""The outputs of CodeExec, given a value and the declared outputs."""

from typing import Any

from ragflow_lg.dsl.code_contract import apply_contract, find_contract_fault, read_printed, text_of, type_of
from tests.harness.rows import each_row, read_rows


@each_row(
    ("text", "value"),
    [
        ("", ""), ("  \n", ""), (' {"a": 1}\n', {"a": 1}), ("{'t': (1, None)}", {"t": [1, None]}), ("True", True),
        ("two words ", "two words"), ("[" * 5_000, "[" * 5_000), ("{1: 2}", {"1": 2}),
    ],
)  # fmt: skip
def test_printed_text(text: str, value: Any) -> None:
    assert read_printed(text) == value


@each_row(
    ("value", "kind"),
    [
        (None, "Null"), (True, "Boolean"), (1, "Number"), (1.5, "Number"), ("", "String"), ({}, "Object"),
        ([], "Array<Any>"), ([1, 2.5], "Array<Number>"), ([1, True], "Array<Any>"),
        ([[1], [2]], "Array<Array<Number>>"),
    ],
)  # fmt: skip
def test_types(value: Any, kind: str) -> None:
    assert type_of(value) == kind


@each_row(
    ("kind", "value"),
    [
        ("", 1), ("any", None), (" string ", "x"), ("Boolean", True), ("null", None), ("Object", {"out": {"a": 1}}),
        ("array<number>", [1, 2]), ("Array<Array<String>>", [["a"], []]),
    ],
)  # fmt: skip
def test_a_value_of_the_declared_type_is_the_output(kind: str, value: Any) -> None:
    results = apply_contract(value, {"out": {"type": kind}})
    assert (results["_ERROR"], results["out"], results["raw_result"]) == ("", value, value)


@each_row(
    ("kind", "value", "converted"),
    [
        ("Number", "7", 7), ("Number", " -2.50 ", -2.5), ("Number", "1e3", 1000.0), ("String", 7, "7"),
        ("String", 2.5, "2.5"), ("String", True, "True"), ("Boolean", "true", True), ("Boolean", "False", False),
        ("Object", '{"a": 1}', {"a": 1}), ("Array<Number>", '["1", 2]', [1, 2]),
        ("Array<String>", [1, "a"], ["1", "a"]), ("Array<Object>", {"out": [{"a": 1}]}, [{"a": 1}]),
        ("Number", {"out": "7"}, 7),
    ],
)  # fmt: skip
def test_a_value_is_converted_to_the_declared_type(kind: str, value: Any, converted: Any) -> None:
    results = apply_contract(value, {"out": {"type": kind}})
    assert (results["_ERROR"], results["out"], results["raw_result"]) == ("", converted, value)
    assert type(results["out"]) is type(converted)


@each_row(("kind", "value", "error"), read_rows("code_results"))
def test_a_value_of_another_type_is_reported(kind: str, value: Any, error: str) -> None:
    results = apply_contract(value, {"out": {"type": kind}})
    assert results["_ERROR"] == f"main returned {error}. Return such a value, or declare another type."
    assert (results["out"], results["raw_result"]) == (None, value)


def test_print_in_place_of_return_is_reported() -> None:
    results = apply_contract(None, {"out": {"type": "String"}}, has_printed=True)
    assert results["_ERROR"] == "main returned nothing, but it printed something. Use return for 'out'."
    assert apply_contract(None, {"out": {"type": "Any"}}, has_printed=True)["_ERROR"] == ""


PERSON = {"name": {"type": "String"}, "age": {"type": "Number"}}


@each_row("value", [{"age": "7", "name": "Anna", "more": 1}, ["Anna", 7], ["Anna", "7"], '{"name": "Anna", "age": 7}'])
def test_several_outputs_get_the_entries_of_a_map_or_list(value: Any) -> None:
    results = apply_contract(value, {**PERSON, "attachments": {"type": "Array<String>"}})
    assert (results["_ERROR"], results["name"], results["age"]) == ("", "Anna", 7)


def test_dotted_outputs_get_the_entries_of_inner_maps() -> None:
    outputs = {"user.name": {"type": "String"}, "user.age": {"type": "Number"}, "flat.key": {}}
    results = apply_contract({"user": {"name": "Anna", "age": "7"}, "flat.key": 1}, outputs)
    assert [results[name] for name in ("_ERROR", *outputs)] == ["", "Anna", 7, 1]
    assert (results["user"], results["flat"]) == ({"name": "Anna", "age": 7}, {"key": 1})
    assert apply_contract({"a": {"b": 1}}, {"a.b": {"type": "Number"}})["a.b"] == 1


def test_null_is_a_value_of_each_of_several_outputs() -> None:
    results = apply_contract({"name": None, "age": 7}, PERSON)
    assert (results["_ERROR"], results["name"], results["age"]) == ("", None, 7)


TWO = ", but 2 outputs are declared: 'name', 'age'. "


@each_row(
    ("value", "error"),
    [
        (1, f"a Number{TWO}Return a map with these keys."),
        ({"name": "Anna"}, f"an Object with the keys 'name'{TWO}Add 'age' to the map."),
        (["Anna"], f"a list with 1 entries{TWO}Return one for each."),
        ({"name": "Anna", "age": "old"}, "a String for 'age', but the output 'age' is declared as Number."),
    ],
)
def test_what_does_not_fit_several_outputs_is_reported(value: Any, error: str) -> None:
    results = apply_contract(value, PERSON)
    assert str(results["_ERROR"]).startswith(f"main returned {error}")
    assert (results["name"], results["age"]) == (None, None)


@each_row(
    ("outputs", "error"),
    [
        ({}, "No output is declared for what main returns. Add one, of type String"),
        ({"content": {}}, "No output is declared for what main returns; 'content' is one that every CodeExec has."),
        ({" ": {}}, "A declared output has no name."),
        ({"a": {"type": "Array<>"}}, "The output 'a' is declared as Array<>, which is no type. Use String, Number"),
        ({"a": {"type": "Array<String"}}, "The output 'a' is declared as Array<String, which is no type."),
        ({"a": {"type": "Array<Text>"}}, "The output 'a' is declared as Array<Text>, which is no type."),
        ({"a": {}, "b": {"type": "Text"}}, "The output 'b' is declared as Text, which is no type."),
        ({"a": None, "content": {}, "raw_result": {}}, ""),
    ],
)
def test_declared_outputs(outputs: dict[str, Any], error: str) -> None:
    found = str(apply_contract("x", outputs)["_ERROR"])
    assert found.startswith(error)
    assert bool(found) == bool(error)
    assert find_contract_fault(outputs) == found


def test_texts() -> None:
    assert [text_of(value) for value in (None, "ä", 1.0, False)] == ["", "ä", "1.0", "False"]
    assert text_of({"b": "ä", "a": [1]}) == '{\n  "a": [\n    1\n  ],\n  "b": "ä"\n}'
