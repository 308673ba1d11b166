from typing import Any

import pytest

from tests.fakes.canvas import assert_findings, canvas, diagnostics_of, node, switch, text
from tests.fakes.regions import iteration, loop, out
from tests.harness.rows import each_row

CODE = "reference-may-be-unset"


def reads(*nodes: str, downstream: Any = ()) -> dict[str, Any]:
    """Return a node whose text reads the results of other nodes."""
    return text(downstream, " ".join(f"{{{id_}@result}}" for id_ in nodes))


def aggregator(*groups: list[str]) -> dict[str, Any]:
    rows = [{"group_name": f"g{n}", "variables": [{"value": r} for r in group]} for n, group in enumerate(groups)]
    return node("VariableAggregator", {"groups": rows})


def failing(**params: Any) -> dict[str, Any]:
    handling = {"exception_method": "goto", "exception_goto": ["c"], **params}
    failing = node("StringTransform", {"method": "merge", "script": "x", **handling}, ["b"])
    return {"a": failing, "b": text(["j"]), "c": text(["j"]), "j": reads("a")}


def equal(*values: str) -> list[dict[str, Any]]:
    """Return the cases of a Switch, with a node for each value."""
    items = [[{"cpn_id": "sys.query", "operator": "=", "value": value}] for value in values]
    return [{"items": item, "to": [value]} for item, value in zip(items, values, strict=True)]


BRANCHES = {"s": switch(["a"], ["b"]), "a": text(["g"]), "b": text(["g"])}
AB = {"a": text(["j"]), "b": text(["j"]), "j": reads("a", "b")}
TWICE = {"s": switch(["a"], ["b"]), "a": text(["t"]), "b": text(["t"]), "j": reads("a"), "k": reads("b")}
SKIPPED = {"s": switch(["a"], ["t"]), "a": text(["t"]), "k": text()}
CHANGE = {"variable": "a@result", "operator": "set", "parameter": "x"}
ASSIGNED = {"s": switch(["a"], ["w"]), "a": text(["j"]), "w": node("VariableAssigner", {"variables": [CHANGE]}, ["j"])}


@each_row(
    ("components", "expected"),
    [
        (
            {"s": switch(["a"], ["j"]), "a": text(["j"]), "j": reads("a")},
            [r"^warning j /components/j/obj/params/script: 'a@result' has no value if the turn goes begin → s \(Else\) "
             r"→ j\. .*VariableAggregator"],
        ),
        ({"s": switch(["a"], ["b"]), **AB}, []),  # alternatives of a join
        ({"a": text(["s"]), "s": switch(["b"], ["j"]), "b": text(["j"]), "j": reads("a")}, []),  # before the branch
        ({"s": switch(["a"], ["b"]), "a": reads(downstream=["c"]), "b": text(), "c": reads("a")}, []),  # within it
        ({"x": text(["a", "b"]), **AB}, []),  # parallel branches
        (
            {"s": node("Switch", {"conditions": equal("a", "b"), "end_cpn_ids": ["j"]}), **AB},
            [r"s \(Else\).*like its alternatives here|like its alternatives here.*s \(Else\)"],
        ),
        ({**BRANCHES, "g": aggregator(["a@result", "b@result"])}, []),  # a group has alternatives
        ({**BRANCHES, "g": aggregator(["a@result"], ["b@result"])}, [" g ", " g "]),
        (failing(), [r"a \(on error\) → c → j"]),
        (failing(exception_goto=["b"]), []),  # both ways lead to the same node, so its author accepts it
        (failing(exception_goto=[], exception_default_value="d"), []),
        ({**failing(), "j": text((), "{a@_ERROR}")}, []),
        ({**TWICE, "t": switch(["j"], ["k"])}, []),  # two Switches with equal conditions choose alike
        ({**TWICE, "t": switch(["j"], ["k"], "not empty", "sys.user_id")}, [" j ", " k "]),
        ({**SKIPPED, "j": reads("a"), "t": switch(["j"], ["k"], "empty")}, []),  # unknown: another test of the value
        ({**SKIPPED, "j": text(), "t": switch(["j"], ["k"], "not empty", "a@result")}, []),
        ({**ASSIGNED, "j": reads("a")}, []),
        ({"s": switch(["a"], ["j"]), "a": text(["s"]), "j": reads("a")}, []),  # a cycle
    ],
)  # fmt: skip
def test_a_value_that_is_missing_on_one_way_is_reported(components: dict[str, Any], expected: list[str]) -> None:
    assert_findings(canvas(components), CODE, *expected)


def bodies(body: dict[str, Any], region: str) -> dict[str, Any]:
    around = loop(body) if region == "loop" else iteration(body, {}, items="sys.files")
    return canvas({**around, **out("x")})


@pytest.mark.parametrize(
    ("region", "value"), [("loop", "only the value of an earlier round"), ("iteration", "no value")]
)
def test_bodies_are_scopes_and_only_a_loop_has_values_of_earlier_rounds(region: str, value: str) -> None:
    body = {"s": switch(["a"], ["j"]), "a": text(["j"]), "j": reads("a")}
    assert_findings(bodies(body, region), CODE, rf"'a@result' has {value} if the turn goes.*s \(Else\) → j\. ")
    body = {"s": switch(["a"], ["b"]), "a": reads("b", downstream=["c"]), "b": text(["c"]), "d": text()}
    document = bodies({**body, "c": reads("d", downstream=["d"])}, region)
    for code in ("reference-excluded", "reference-not-upstream"):
        (found,) = diagnostics_of(document, code)
        assert ("that of an earlier round" in found.message) == (region == "loop")


def test_many_routers_are_not_multiplied() -> None:
    components: dict[str, Any] = {}
    for n in range(40):
        following = f"s{n + 1}" if n < 39 else "j"
        components[f"s{n}"] = switch([f"a{n}"], [following], "=", f"sys.x{n}")
        components[f"a{n}"] = text([following])
    assert_findings(canvas({**components, "j": reads("a39")}), CODE, r"s39 \(Else\) → j\. ")  # only the last matters
    assert_findings(canvas({**components, "j": reads("a0")}), CODE)  # all 40 matter, and have too many combinations
