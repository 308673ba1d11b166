from typing import Any

from tests.fakes.canvas import canvas, diagnostics_of, node, text
from tests.fakes.regions import assign, loop, out
from tests.harness.rows import each_row

EMAIL = {"smtp_server": "h", "email": "a@x", "smtp_password": "p", "to_email": "b@x"}


def condition(variable: str) -> dict[str, Any]:
    return {"variable": variable, "operator": "is", "value": "x", "input_mode": "constant"}


@each_row(
    ("body", "variable", "is_reported"),
    [
        ({"t": text()}, "n", True),
        ({"t": text()}, "lp@n", True),
        ({"t": text()}, "env.n", True),
        ({"w": assign("lp@n", "sys.query")}, "n", False),
        ({"w": assign("lp@n", "sys.query")}, "lp@n", False),
        ({"w": assign("env.n", "sys.query")}, "env.n", False),
        ({"t": text()}, "t@result", False),
        ({"t": text()}, "sys.conversation_turns", False),
        ({"t": text(["e"]), "e": node("ExitLoop")}, "n", False),
    ],
)
def test_a_loop_whose_test_cannot_change_is_reported(body: dict[str, Any], variable: str, is_reported: bool) -> None:
    region = loop(body, count=7, variables={"n": "1"}, loop_termination_condition=[condition(variable)])
    variables = {"n": {"name": "n", "type": "string", "value": ""}}
    found = diagnostics_of(canvas({**region, **out("x")}, variables=variables), "loop-without-exit")
    assert bool(found) == is_reported
    assert all("ends only after 7 rounds" in d.message for d in found)


def test_an_effect_in_a_body_is_reported() -> None:
    (finding,) = diagnostics_of(canvas({**loop({"e": node("Email", EMAIL)}), **out("x")}), "effect-repeated")
    assert (finding.severity, finding.node) == ("info", "e")
    assert not diagnostics_of(canvas({"e": node("Email", EMAIL)}), "effect-repeated")
    allowed = {**EMAIL, "once_only": False}
    assert not diagnostics_of(canvas({**loop({"e": node("Email", allowed)}), **out("x")}), "effect-repeated")


def test_unhandled_failures_of_services_are_reported_once() -> None:
    handled = {"exception_method": "comment", "exception_default_value": "none"}
    components = {
        "a": node("Wikipedia", {"query": "x"}, ["b"]),
        "b": node("ArXiv", {"query": "x"}, ["c"]),
        "c": node("PubMed", {"query": "x", **handled}),
    }
    (finding,) = diagnostics_of(canvas(components), "failure-unhandled")
    assert finding.message == "The turn fails if a service does not answer: a, b."
