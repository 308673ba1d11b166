from ragflow_lg.base.diagnostics import Diagnostic


def test_a_diagnostic_as_text_and_as_json() -> None:
    diagnostic = Diagnostic("json-invalid", "error", "/a", "Bad.", "Fix it.", "n", "Title", 3, 4)
    assert str(diagnostic) == "3:4: error json-invalid [Title]: Bad. Fix it."
    assert diagnostic.as_dict()["line"] == 3
    assert str(Diagnostic("json-invalid", "info", "", "x")) == "info json-invalid: x"
