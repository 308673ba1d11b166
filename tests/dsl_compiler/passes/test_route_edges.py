import pytest

from tests.fakes.canvas import canvas, diagnostics_of, node, plan_of, switch, text


def test_a_missing_target_beside_one_that_exists_is_left_out() -> None:
    document = canvas({"a": text(["b", "nowhere"]), "b": text()})
    assert plan_of(document).nodes["a"].downstream == ("b",)
    (diagnostic,) = diagnostics_of(document, "target-unknown")
    assert diagnostic.severity == "warning"
    assert diagnostic.pointer == "/components/a/downstream"


def test_a_missing_target_alone_refuses_the_canvas() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": text(["nowhere"])}), "target-unknown")
    assert diagnostic.severity == "error"


def test_a_route_without_any_target_is_an_error() -> None:
    document = canvas({"s": switch(["gone"], ["a"]), "a": text()})
    assert diagnostics_of(document, "route-empty")[0].pointer == "/components/s/obj/params/conditions/0/to"


def test_a_router_follows_its_routes_and_not_downstream() -> None:
    router = {**switch(["a"], ["b"]), "downstream": []}
    assert plan_of(canvas({"s": router, "a": text(), "b": text()})).nodes["s"].targets == ("a", "b")


def test_an_edge_back_to_begin_is_left_out() -> None:
    document = canvas({"a": text(["b", "begin"]), "b": text()})
    assert plan_of(document).nodes["a"].downstream == ("b",)
    assert diagnostics_of(document, "target-unknown")[0].severity == "warning"


@pytest.mark.parametrize(("method", "targets"), [("goto", ("b", "h")), ("", ("b",)), (None, ("b",))])
def test_an_exception_target_counts_only_with_a_method(method: str | None, targets: tuple[str, ...]) -> None:
    params = {"query": "sys.query", "exception_method": method, "exception_goto": ["h"]}
    document = canvas({"a": node("ListOperations", params, ["b"]), "b": text(), "h": text()})
    assert plan_of(document).nodes["a"].targets == targets


def test_a_router_tells_of_a_missing_target_in_downstream_once() -> None:
    router = {**switch(["a"], ["gone", "b"]), "downstream": ["a", "gone", "nowhere"]}
    told = diagnostics_of(canvas({"s": router, "a": text(), "b": text()}), "target-unknown")
    assert [(d.severity, d.pointer.rpartition("/")[2]) for d in told] == [
        ("warning", "end_cpn_ids"),
        ("warning", "downstream"),
    ]
    assert "'nowhere'" in told[1].message
