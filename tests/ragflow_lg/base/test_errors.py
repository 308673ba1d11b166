import pickle

from ragflow_lg.base import errors
from ragflow_lg.base.diagnostics import Diagnostic
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


def test_the_number_of_errors_is_spelt_correctly() -> None:
    bad = Diagnostic("json-invalid", "error", "", "bad")
    assert str(errors.CompileError([bad])).startswith("The canvas has 1 error:\n")
    assert str(errors.CompileError([bad], file="a.json")).startswith("The canvas 'a.json' has 1 error:\n")
    assert str(errors.CompileError([bad, bad])).startswith("The canvas has 2 errors:\n")


def test_the_text_of_a_rejected_canvas_is_bounded_but_all_diagnostics_are_kept() -> None:
    error = errors.CompileError([Diagnostic("json-invalid", "error", "", f"bad {n}") for n in range(2_000)])
    assert len(error.diagnostics) == 2_000
    assert "bad 49" in str(error)
    assert str(error).endswith("\n  and 1,950 more")
