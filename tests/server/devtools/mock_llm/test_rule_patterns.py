from __future__ import annotations

import time

import pytest

from ragflow_lg.server.devtools.mock_llm.rule_patterns import compile_pattern


def test_a_pattern_is_looked_for_everywhere() -> None:
    assert compile_pattern("b+c").found_in("abbc")
    assert not compile_pattern("^b").found_in("ab")


@pytest.mark.parametrize(("text", "problem"), [("(", "no regular expression"), ("a" * 1001, "longer than 1,000")])
def test_what_is_no_pattern(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compile_pattern(text)


def test_a_pattern_that_would_run_for_ever_is_stopped() -> None:
    began = time.process_time()
    with pytest.raises(TimeoutError):
        compile_pattern(r"(\w+\s?)+(\w+\s?)+(\w+\s?)+$").found_in("word " * 5000 + "!")
    assert time.process_time() - began < 5
