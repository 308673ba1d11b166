from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from tests.fakes.canvas import canvas, diagnostics_of, node, plan_of, switch, text


def test_a_missing_target_is_omitted_if_another_one_exists() -> None:
    document = canvas({"a": text(["b", "nowhere"]), "b": text()})
    assert plan_of(document).nodes[NodeId("a")].downstream == ("b",)
    (diagnostic,) = diagnostics_of(document, "target-unknown")
    assert diagnostic.severity == "warning"
    assert diagnostic.pointer == "/components/a/downstream"


def test_a_missing_target_refuses_the_canvas_if_it_is_the_only_one() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": text(["nowhere"])}), "target-unknown")
    assert diagnostic.severity == "error"


def test_a_misspelt_target_gets_a_suggestion() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": text(["answr"]), "answer": text()}), "target-unknown")
    assert diagnostic.hint == "Did you mean answer?"


def test_a_route_without_any_target_is_an_error() -> None:
    document = canvas({"s": switch(["begin"], ["a"]), "a": text()})
    assert diagnostics_of(document, "route-empty")[0].pointer == "/components/s/obj/params/conditions/0/to"


def test_a_route_whose_only_target_is_missing_is_reported_once() -> None:
    document = canvas({"s": switch(["gone"], ["a"]), "a": text()})
    assert [d.severity for d in diagnostics_of(document, "target-unknown")] == ["error"]
    assert diagnostics_of(document, "route-empty") == []


def test_a_router_follows_its_routes_and_not_downstream() -> None:
    router: dict[str, Any] = {**switch(["a"], ["b"]), "downstream": []}
    assert plan_of(canvas({"s": router, "a": text(), "b": text()})).nodes[NodeId("s")].targets == ("a", "b")


def test_an_edge_back_to_begin_is_omitted() -> None:
    document = canvas({"a": text(["b", "begin"]), "b": text()})
    assert plan_of(document).nodes[NodeId("a")].downstream == ("b",)
    assert diagnostics_of(document, "target-unknown")[0].severity == "warning"


@pytest.mark.parametrize(("method", "targets"), [("goto", ("b", "h")), ("", ("b",)), (None, ("b",))])
def test_an_exception_target_counts_only_with_a_method(method: str | None, targets: tuple[str, ...]) -> None:
    params = {"query": "sys.query", "exception_method": method, "exception_goto": ["h"]}
    document = canvas({"a": node("ListOperations", params, ["b"]), "b": text(), "h": text()})
    assert plan_of(document).nodes[NodeId("a")].targets == targets


def test_a_missing_target_in_downstream_of_a_router_is_reported_once() -> None:
    router = {**switch(["a"], ["gone", "b"]), "downstream": ["a", "gone", "nowhere"]}
    diagnostics = diagnostics_of(canvas({"s": router, "a": text(), "b": text()}), "target-unknown")
    assert [(d.severity, d.pointer.rpartition("/")[2]) for d in diagnostics] == [
        ("warning", "end_cpn_ids"),
        ("warning", "downstream"),
    ]
    assert "'nowhere'" in diagnostics[1].message
