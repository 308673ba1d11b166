import random
import time
from typing import Any

import pytest

from tests.fakes.canvas import canvas, diagnostics_of, node, switch, text

VARIABLES = {"count": {"name": "count", "type": "number", "value": 0}}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("{ghost@x}", "reference-unknown-node"),
        ("{a@resutl}", "reference-unknown-output"),
        ("{env.cuont}", "reference-unknown-global"),
        ("{sys.nope}", "reference-unknown-global"),
    ],
)
def test_a_reference_to_something_that_does_not_exist_is_a_warning(script: str, code: str) -> None:
    document = canvas({"a": text(["b"]), "b": text([], script)}, variables=VARIABLES)
    (diagnostic,) = diagnostics_of(document, code)
    assert diagnostic.severity == "warning"
    assert diagnostic.pointer == "/components/b/obj/params/script"


@pytest.mark.parametrize("script", ["{a@result}", "{a@_ERROR}", "{env.count}", "{sys.query}"])
def test_a_reference_to_something_that_exists_is_accepted(script: str) -> None:
    document = canvas({"a": text(["b"]), "b": text([], script)}, variables=VARIABLES)
    assert not [
        d
        for code in ("unknown-node", "unknown-output", "unknown-global")
        for d in diagnostics_of(document, f"reference-{code}")
    ]


@pytest.mark.parametrize(
    ("params", "hint"),
    [({}, "Its outputs: none."), ({"inputs": {"size": {"type": "line"}}}, "Did you mean size?")],
)
def test_a_reference_to_a_field_that_begin_lacks_is_a_warning(params: dict[str, Any], hint: str) -> None:
    document = canvas({"begin": node("Begin", params, ["a"]), "a": text([], "{begin@sizee}")})
    (diagnostic,) = diagnostics_of(document, "reference-unknown-output")
    assert (diagnostic.severity, diagnostic.node, diagnostic.hint) == ("warning", "a", hint)


@pytest.mark.parametrize(
    ("params", "script"),
    [({"inputs": {"size": {"type": "line"}}}, "{begin@size}"), ({"mode": "Webhook"}, "{begin@body}")],
)
def test_a_reference_to_a_field_of_begin_is_accepted(params: dict[str, Any], script: str) -> None:
    document = canvas({"begin": node("Begin", params, ["a"]), "a": text([], script)})
    assert not diagnostics_of(document, "reference-unknown-output")


def test_similar_names_are_suggested() -> None:
    document = canvas({"a": text(["b"]), "b": text([], "{a@resutl}")})
    assert "Did you mean result?" in diagnostics_of(document, "reference-unknown-output")[0].hint


def test_an_assignment_creates_its_target() -> None:
    assigner = node(
        "VariableAssigner", {"variables": [{"variable": "env.new", "operator": "set", "parameter": "1"}]}, ["b"]
    )
    assert not diagnostics_of(canvas({"a": assigner, "b": text([], "{env.new}")}), "reference-unknown-global")


def test_a_reference_to_a_parallel_node_is_reported() -> None:
    document = canvas({"a": text(), "b": text([], "{a@result}")}, ["a", "b"])
    assert diagnostics_of(document, "reference-not-upstream")[0].node == "b"


def test_a_reference_to_an_exclusive_branch_is_a_warning() -> None:
    document = canvas({"s": switch(["a"], ["b"]), "a": text(), "b": text([], "{a@result}")})
    assert diagnostics_of(document, "reference-excluded")[0].severity == "warning"


def test_a_node_after_the_branches_may_read_all_of_them() -> None:
    """Canvases join branches in this way: the value of the branch that did not run is empty."""
    join = {"out": node("Message", {"content": ["{a@result}{b@result}"]})}
    document = canvas({"s": switch(["a"], ["b"]), "a": text(["out"]), "b": text(["out"]), **join})
    assert diagnostics_of(document, "reference-excluded") == []
    assert diagnostics_of(document, "reference-not-upstream") == []


def test_many_invalid_references_take_linear_time() -> None:
    rng = random.Random(1)
    ids = ["".join(rng.choices("abcdefgh", k=30)) for _ in range(600)]
    components = {id_: text([], "".join(f"{{{other}q@x}}" for other in ids[:10])) for id_ in ids}
    start_s = time.process_time()
    assert len(diagnostics_of(canvas(components, ids), "reference-unknown-node")) == 6000
    assert time.process_time() - start_s < 10


def test_a_hint_lists_a_limited_number_of_outputs() -> None:
    outputs = {f"output{i}": {"ref": "b@result"} for i in range(100)}
    components = {
        "it": node("Iteration", {"items_ref": "sys.files", "outputs": outputs}, ["c"]),
        "b": text(parent_id="it"),
        "c": text([], "{it@zzz}"),
    }
    (diagnostic,) = diagnostics_of(canvas(components), "reference-unknown-output")
    assert diagnostic.hint.endswith("output11, ….")


def test_outputs_that_an_iteration_collects_are_checked() -> None:
    refs = {"a": "b@result", "b": "item", "c": "ghost@x", "d": "out@result", "e": "b@typo", "f": "deep@result"}
    outputs = {name: {"ref": ref} for name, ref in refs.items()}
    components = {
        "it": node("Iteration", {"items_ref": "sys.files", "outputs": outputs}, ["out"]),
        "b": text(["l"], parent_id="it"),
        "l": node("Loop", {"maximum_loop_count": 1}, parent_id="it"),
        "deep": text(parent_id="l"),
        "out": text(),
    }
    codes = ("reference-unknown-node", "reference-not-upstream", "reference-unknown-output")
    outputs_reported = [
        d.pointer.rpartition("/")[2] for code in codes for d in diagnostics_of(canvas(components), code)
    ]
    assert outputs_reported == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("items", "code", "message"),
    [
        ("m@gone", "reference-unknown-output", "it is empty there, and Iteration fails without a list."),
        ("env.gone", "reference-unknown-global", "it is empty there, and Iteration fails without a list."),
        ("m@content", "value-type", "'m@content' is text; Iteration iterates over a list and fails without one."),
    ],
)
def test_an_iteration_over_something_other_than_a_list_is_reported(items: str, code: str, message: str) -> None:
    components = {
        "m": node("Message", {"content": ["x"]}, ["it"]),
        "it": node("Iteration", {"items_ref": items}),
        "ii": node("IterationItem", {}, ["b"], parent_id="it"),
        "b": text(parent_id="it"),
    }
    (diagnostic,) = diagnostics_of(canvas(components), code)
    assert (diagnostic.severity, diagnostic.pointer) == ("warning", "/components/it/obj/params/items_ref")
    assert message in diagnostic.message
    components["it"] = node("Iteration", {"items": items})
    assert len(diagnostics_of(canvas(components), code)) == (code != "value-type")


@pytest.mark.parametrize("items", ["m@downloads", "m@content.0", "sys.files"])
def test_a_value_that_may_be_a_list_is_accepted(items: str) -> None:
    components = {
        "m": node("Message", {"content": ["x"]}, ["it"]),
        "it": node("Iteration", {"items_ref": items}),
        "ii": node("IterationItem", {}, ["b"], parent_id="it"),
        "b": text(parent_id="it"),
    }
    assert diagnostics_of(canvas(components), "params-invalid") == []
