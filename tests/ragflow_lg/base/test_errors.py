import pickle

from ragflow_lg.base import errors
from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import foreign_line
from tests.harness.rows import each_row

EXAMPLES = [
    errors.CompileError([Diagnostic("json-invalid", "error", "", "bad")]),
    errors.RunError("text", node="a"),
    errors.ComponentError("text", node="a"),
    errors.NodeTimeoutError("a", 3.0),
    errors.RunCancelled("a"),
    errors.UndeclaredTargetError("a", "b"),
    errors.ServiceError("text", is_retryable=True),
    errors.SettingsError("text"),
    errors.CheckpointError("text"),
]


@each_row("error", EXAMPLES)
def test_errors_survive_pickling(error: errors.RagflowLgError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again), again.code) == (str(error), vars(error), error.code)


def test_codes_are_unique() -> None:
    assert len({error.code for error in EXAMPLES}) == len(EXAMPLES)


def test_a_diagnostic_as_text_and_as_json() -> None:
    diagnostic = Diagnostic("json-invalid", "error", "/a", "Bad.", "Fix it.", "n", "Title", 3, 4)
    assert str(diagnostic) == "3:4: error json-invalid [Title]: Bad. Fix it."
    assert diagnostic.as_dict()["line"] == 3
    assert str(errors.CompileError([diagnostic], file="a.json")).startswith("The canvas 'a.json' has 1 error:\n")


def test_the_text_of_a_rejected_canvas_is_bounded_but_all_diagnostics_are_kept() -> None:
    error = errors.CompileError([Diagnostic("json-invalid", "error", "", f"bad {n}") for n in range(2_000)])
    assert len(error.diagnostics) == 2_000
    assert "bad 49" in str(error)
    assert str(error).endswith("\n  and 1,950 more")


@each_row(
    ("text", "secrets", "limit", "line"),
    [
        ("key abcdefgh and abcd", ["abcd", "abcdefgh"], 100, "key *** and ***"),
        ("an error", ["", "or"], 100, "an error"),
        (" a\n\tb  c ", [], 4, "a b "),
        ("x" * 47 + "secretsecret", ["secretsecret"], 50, "x" * 47 + "***"),
    ],
)
def test_the_text_of_another_program_is_one_line_without_secrets(
    text: str, secrets: list[str], limit: int, line: str
) -> None:
    assert foreign_line(text, secrets, limit) == line
