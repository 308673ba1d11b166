from ragflow_lg.base.diagnostics import ADVICE
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer


def test_equal_diagnostics_are_stored_once() -> None:
    reporter = Reporter()
    for _ in range(2):
        reporter.report("json-invalid", "warning", "", "text")
    assert len(reporter.diagnostics) == 1
    assert not reporter.has_errors
    reporter.report("json-invalid", "error", "", "text")
    assert reporter.has_errors


def test_a_diagnostic_without_hint_gets_the_advice_of_its_code() -> None:
    reporter = Reporter()
    reporter.report("route-empty", "error", "", "text")
    reporter.report("route-empty", "error", "", "text", hint="Do this.")
    assert [diagnostic.hint for diagnostic in reporter.diagnostics] == [ADVICE["route-empty"], "Do this."]


def test_a_pointer_ends_before_an_overlong_key() -> None:
    assert extend_pointer("/a", ["b", "x" * 2000, "c"]) == "/a/b"
