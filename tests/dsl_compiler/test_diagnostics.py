import random
import time

import pytest

from ragflow_lg.base.diagnostics import ADVICE
from ragflow_lg.dsl_compiler.diagnostics import MAX_CHARS, MAX_LOOKUPS, Nearest, Reporter, extend_pointer


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


def test_suggestions_for_names_of_one_kind_are_shared() -> None:
    reporter = Reporter()
    assert reporter.nearest("Message", ["content"]).hint("contnt", "") == "Did you mean content?"
    assert reporter.nearest("Message", ["other"]) is reporter.nearest("Message", [])
    assert reporter.nearest("LLM", []) is not reporter.nearest("Message", [])


def test_an_unknown_code_is_an_error() -> None:
    with pytest.raises(AssertionError):
        Reporter().report("made-up", "error", "", "text")


def test_pointers_are_escaped() -> None:
    assert extend_pointer("", ["a/b", "~", 3]) == "/a~1b/~0/3"


def test_a_pointer_ends_before_an_overlong_key() -> None:
    assert extend_pointer("/a", ["b", "x" * 2000, "c"]) == "/a/b"


def test_similar_names_are_suggested() -> None:
    near = Nearest(["Switch:A", "Switch:B", "Message:C"])
    assert near.hint("Switch:X", "no") in ("Did you mean Switch:B or Switch:A?", "Did you mean Switch:A or Switch:B?")
    assert near.hint("nothing", "no") == "no"
    assert near.hint("x" * (MAX_CHARS + 1), "no") == "no"


def test_look_ups_of_many_names_are_limited() -> None:
    rng = random.Random(1)
    names = ["".join(rng.choices("abcdefgh", k=50)) for _ in range(2000)]
    near = Nearest(names[:1000])
    start_s = time.process_time()
    for name in names[1000:]:
        near.hint(name, "")
    assert time.process_time() - start_s < 5
    assert near.hint(names[0][:-1], "otherwise") == "otherwise", f"only {MAX_LOOKUPS} names are looked up"
