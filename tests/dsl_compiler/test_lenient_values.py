from ragflow_lg.component.spec import AnySpec
from ragflow_lg.dsl_compiler.lenient_values import as_list, as_map, as_text, as_texts, rename_old_keys, yields_items
from tests.fakes.canvas import CATALOG


def test_each_returns_an_empty_value_for_the_wrong_type() -> None:
    for junk in (None, 1, True, object()):
        assert (as_map(junk), as_list(junk), as_text(junk), as_texts(junk)) == ({}, [], "", ())


def test_strings_are_unique_and_in_order() -> None:
    assert as_texts(["b", "a", "b", "", 3]) == ("b", "a")
    assert as_texts("x") == ("x",)


def spec(name: str) -> AnySpec:
    component = CATALOG.get(name)
    assert component is not None
    return component


def test_an_old_key_is_renamed_if_the_component_has_the_new_one() -> None:
    params = {"a": 1, "llm_enabled_tools": [2], "tools": []}
    assert rename_old_keys(params, spec("Agent")) == {"a": 1, "tools": [2]}


def test_an_old_key_stays_if_the_new_one_is_unknown_or_set() -> None:
    for params, name in (({"llm_enabled_tools": [2]}, "LLM"), ({"llm_enabled_tools": [2], "tools": [3]}, "Agent")):
        assert rename_old_keys(params, spec(name)) is params


def test_only_an_iteration_yields_items() -> None:
    assert [name for name in ("Iteration", "Loop", "Agent") if yields_items(spec(name))] == ["Iteration"]
