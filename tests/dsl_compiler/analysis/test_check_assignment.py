from typing import Any

import pytest

from tests.fakes.canvas import canvas, diagnostics_of, node, switch, text
from tests.fakes.regions import iteration, loop, out

CODE = "reference-may-be-unset"


def reads(*nodes: str, downstream: Any = ()) -> dict[str, Any]:
    """Return a node whose text reads the results of other nodes."""
    return text(downstream, " ".join(f"{{{id_}@result}}" for id_ in nodes))


def findings(components: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    return [(d.node, d.message) for d in diagnostics_of(canvas(components, **more), CODE)]


def test_a_value_of_one_branch_is_missing_on_the_other() -> None:
    ((node_id, message),) = findings({"s": switch(["a"], ["j"]), "a": text(["j"]), "j": reads("a")})
    assert node_id == "j"
    assert message == "'a@result' has no value if the turn goes begin → s (Else) → j."


def test_the_pointer_leads_to_the_text() -> None:
    (diagnostic,) = diagnostics_of(canvas({"s": switch(["a"], ["j"]), "a": text(["j"]), "j": reads("a")}), CODE)
    assert (diagnostic.severity, diagnostic.pointer) == ("warning", "/components/j/obj/params/script")
    assert "VariableAggregator" in diagnostic.hint


@pytest.mark.parametrize(
    "components",
    [
        {"s": switch(["a"], ["b"]), "a": text(["j"]), "b": text(["j"]), "j": reads("a", "b")},
        {"a": text(["s"]), "s": switch(["b"], ["j"]), "b": text(["j"]), "j": reads("a")},
        {"s": switch(["a"], ["b"]), "a": reads(downstream=["c"]), "b": text(), "c": reads("a")},
        {"x": text(["a", "b"]), "a": text(["j"]), "b": text(["j"]), "j": reads("a", "b")},
    ],
    ids=["alternatives of a join", "before the branch", "within the branch", "parallel branches"],
)
def test_a_value_on_every_path_is_not_reported(components: dict[str, Any]) -> None:
    assert not findings(components)


def test_a_branch_without_any_of_the_alternatives_is_reported() -> None:
    three = {
        "conditions": [
            {"items": [{"cpn_id": "sys.query", "operator": "=", "value": value}], "to": [to]}
            for value, to in (("1", "a"), ("2", "b"))
        ],
        "end_cpn_ids": ["j"],
    }
    components = {"s": node("Switch", three), "a": text(["j"]), "b": text(["j"]), "j": reads("a", "b")}
    ((_, message),) = findings(components)
    assert "like its alternatives here" in message
    assert "s (Else)" in message


def test_groups_of_an_aggregator_are_alternatives() -> None:
    def aggregator(*groups: list[str]) -> dict[str, Any]:
        rows = [{"group_name": f"g{n}", "variables": [{"value": r} for r in group]} for n, group in enumerate(groups)]
        return node("VariableAggregator", {"groups": rows})

    branches = {"s": switch(["a"], ["b"]), "a": text(["g"]), "b": text(["g"])}
    assert not findings({**branches, "g": aggregator(["a@result", "b@result"])})
    assert [id_ for id_, _ in findings({**branches, "g": aggregator(["a@result"], ["b@result"])})] == ["g", "g"]


def test_a_failed_node_has_no_value_where_the_flow_goes_on_elsewhere() -> None:
    failing = {"method": "merge", "script": "x", "exception_method": "goto", "exception_goto": ["c"]}
    components = {"a": node("StringTransform", failing, ["b"]), "b": text(["j"]), "c": text(["j"]), "j": reads("a")}
    ((_, message),) = findings(components)
    assert "a (on error) → c → j" in message
    components["a"] = node("StringTransform", {**failing, "exception_goto": ["b"]}, ["b"])
    assert not findings(components), "both ways lead to the same node, so its author accepts the missing value"
    components["a"] = node("StringTransform", {**failing, "exception_goto": [], "exception_default_value": "d"}, ["b"])
    assert not findings(components)
    components["j"] = text((), "{a@_ERROR}")
    assert not findings(components)


def test_two_switches_with_equal_conditions_choose_alike() -> None:
    components = {
        "s": switch(["a"], ["b"]),
        "a": text(["t"]),
        "b": text(["t"]),
        "t": switch(["j"], ["k"]),
        "j": reads("a"),
        "k": reads("b"),
    }
    assert not findings(components)
    components["t"] = switch(["j"], ["k"], "not empty", "sys.user_id")
    assert [id_ for id_, _ in findings(components)] == ["j", "k"]


def test_switches_that_test_the_same_value_differently_are_unknown() -> None:
    components = {
        "s": switch(["a"], ["t"]),
        "a": text(["t"]),
        "t": switch(["j"], ["k"], "empty"),
        "j": reads("a"),
        "k": text(),
    }
    assert not findings(components)


def test_a_switch_may_test_whether_a_branch_has_run() -> None:
    components = {
        "s": switch(["a"], ["t"]),
        "a": text(["t"]),
        "t": switch(["j"], ["k"], "not empty", "a@result"),
        "j": text(),
        "k": text(),
    }
    assert not findings(components)


def test_an_assigned_output_and_cycles_are_unknown() -> None:
    change = {"variable": "a@result", "operator": "set", "parameter": "x"}
    components = {
        "s": switch(["a"], ["w"]),
        "a": text(["j"]),
        "w": node("VariableAssigner", {"variables": [change]}, ["j"]),
        "j": reads("a"),
    }
    assert not findings(components)
    assert not findings({"s": switch(["a"], ["j"]), "a": text(["s"]), "j": reads("a")})


@pytest.mark.parametrize("region", ["loop", "iteration"])
def test_bodies_are_scopes_of_their_own(region: str) -> None:
    body = {"s": switch(["a"], ["j"]), "a": text(["j"]), "j": reads("a")}
    around = loop(body) if region == "loop" else iteration(body, {}, items="sys.files")
    ((_, message),) = findings({**around, **out("x")})
    value = "only the value of an earlier round" if region == "loop" else "no value"
    assert f"'a@result' has {value} if the turn goes" in message
    assert message.endswith("s (Else) → j.")


def test_many_routers_are_not_multiplied() -> None:
    components: dict[str, Any] = {}
    for n in range(40):
        following = f"s{n + 1}" if n < 39 else "j"
        components[f"s{n}"] = switch([f"a{n}"], [following], "=", f"sys.x{n}")
        components[f"a{n}"] = text([following])
    components["j"] = reads("a39")
    ((_, message),) = findings(components)
    assert message.endswith("s39 (Else) → j."), "only the last of 40 routers matters"
    components["j"] = reads("a0")
    assert not findings(components), "all 40 matter, and have too many combinations"


@pytest.mark.parametrize("region", ["loop", "iteration"])
def test_only_a_loop_has_values_of_earlier_rounds(region: str) -> None:
    body = {
        "s": switch(["a"], ["b"]),
        "a": reads("b", downstream=["c"]),
        "b": text(["c"]),
        "c": reads("d", downstream=["d"]),
    }
    body["d"] = text()
    around = loop(body) if region == "loop" else iteration(body, {}, items="sys.files")
    found = [
        diagnostics_of(canvas({**around, **out("x")}), f"reference-{code}") for code in ("excluded", "not-upstream")
    ]
    texts = [diagnostic.message for diagnostics in found for diagnostic in diagnostics]
    assert len(texts) == 2
    assert all(("that of an earlier round" in message) == (region == "loop") for message in texts)
