import random
import time
from typing import Any

from tests.fakes.canvas import assert_findings, canvas, diagnostics_of, node, switch, text
from tests.harness.rows import each_row

CODES = ("unknown-node", "unknown-output", "unknown-global", "not-upstream", "excluded")
VARIABLES = {"count": {"name": "count", "type": "number", "value": 0}}
SIZE = node("Begin", {"inputs": {"size": {"type": "line"}}}, ["a"])
CHANGE = {"variable": "env.new", "operator": "set", "parameter": "1"}
JOINED = {"a": text(["m"]), "b": text(["m"]), "m": node("Message", {"content": ["{a@result}{b@result}"]})}
REFS = {"a": "b@result", "b": "item", "c": "ghost@x", "d": "out@result", "e": "b@typo", "f": "deep@result"}
COLLECTED = {name: {"ref": ref} for name, ref in REFS.items()}
NESTED = {
    "it": node("Iteration", {"items_ref": "sys.files", "outputs": COLLECTED}, ["out"]),
    "b": text(["l"], parent_id="it"),
    "l": node("Loop", {"maximum_loop_count": 1}, parent_id="it"),
    **{"deep": text(parent_id="l"), "out": text()},
}
MANY = {
    "it": node(
        "Iteration", {"items_ref": "sys.files", "outputs": {f"output{i}": {"ref": "b@result"} for i in range(100)}}
    ),
    **{"b": text(parent_id="it"), "c": text([], "{it@zzz}")},
}


def reading(script: str, **more: Any) -> dict[str, Any]:
    """Return a canvas whose second node reads what the script names."""
    return canvas({"a": text(["b"]), "b": text([], script)}, variables=VARIABLES, **more)


@each_row(
    ("document", "expected"),
    [
        (reading("{ghost@x}"), {"unknown-node": "^warning b /components/b/obj/params/script:"}),
        (reading("{a@resutl}"), {"unknown-output": r"^warning b .*Did you mean result\?"}),
        (reading("{env.cuont}"), {"unknown-global": "^warning b /components/b/obj/params/script:"}),
        (reading("{sys.nope}"), {"unknown-global": "^warning b /components/b/obj/params/script:"}),
        (reading("{a@result} {a@_ERROR} {env.count} {sys.query}"), {}),
        (canvas({"a": text([], "{begin@sizee}")}), {"unknown-output": r"^warning a .*Its outputs: none\.$"}),
        (canvas({"begin": SIZE, "a": text([], "{begin@sizee}")}), {"unknown-output": r"^warning a .*mean size\?$"}),
        (canvas({"begin": SIZE, "a": text([], "{begin@size}")}), {}),
        (canvas({"begin": node("Begin", {"mode": "Webhook"}, ["a"]), "a": text([], "{begin@body}")}), {}),
        (canvas({"a": node("VariableAssigner", {"variables": [CHANGE]}, ["b"]), "b": text([], "{env.new}")}), {}),
        (canvas({"a": text(), "b": text([], "{a@result}")}, ["a", "b"]), {"not-upstream": "^warning b "}),
        (canvas({"s": switch(["a"], ["b"]), "a": text(), "b": text([], "{a@result}")}), {"excluded": "^warning b "}),
        # Canvases join branches in this way: the value of the branch that did not run is empty.
        (canvas({"s": switch(["a"], ["b"]), **JOINED}), {}),
        (canvas(MANY, ["it", "c"]), {"unknown-output": r"output11, ….$"}),
        (canvas(NESTED), {"unknown-node": "/c: ", "not-upstream": "/d: ", "unknown-output": "/e: "}),
    ],
)
def test_a_reference_to_what_has_no_value_is_reported(document: dict[str, Any], expected: dict[str, str]) -> None:
    for code in CODES:
        assert_findings(document, f"reference-{code}", *([expected[code]] if code in expected else []))


def test_many_invalid_references_take_linear_time() -> None:
    rng = random.Random(1)
    ids = ["".join(rng.choices("abcdefgh", k=30)) for _ in range(600)]
    components = {id_: text([], "".join(f"{{{other}q@x}}" for other in ids[:10])) for id_ in ids}
    start_s = time.process_time()
    assert len(diagnostics_of(canvas(components, ids), "reference-unknown-node")) == 6000
    assert time.process_time() - start_s < 10


def iterating(**params: Any) -> dict[str, Any]:
    item = node("IterationItem", {}, ["b"], parent_id="it")
    before = node("Message", {"content": ["x"]}, ["it"])
    return canvas({"m": before, "it": node("Iteration", params), "ii": item, "b": text(parent_id="it")})


@each_row(
    ("items", "code", "message"),
    [
        ("m@gone", "reference-unknown-output", "it is empty there, and Iteration fails without a list."),
        ("env.gone", "reference-unknown-global", "it is empty there, and Iteration fails without a list."),
        ("m@content", "value-type", "'m@content' is text; Iteration iterates over a list and fails without one."),
    ],
)
def test_an_iteration_over_something_other_than_a_list_is_reported(items: str, code: str, message: str) -> None:
    assert_findings(iterating(items_ref=items), code, f"^warning it /components/it/obj/params/items_ref: .*{message}")
    assert len(diagnostics_of(iterating(items=items), code)) == (code != "value-type")


@each_row("items", ["m@downloads", "m@content.0", "sys.files"])
def test_a_value_that_may_be_a_list_is_accepted(items: str) -> None:
    for code in ("params-invalid", "value-type"):
        assert diagnostics_of(iterating(items_ref=items), code) == []
