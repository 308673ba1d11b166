from __future__ import annotations

import time

import pytest

from ragflow_lg.server.devtools.mock_llm.rule_patterns import compile_pattern


def test_a_pattern_may_match_anywhere() -> None:
    assert compile_pattern("b+c").matches("abbc")
    assert not compile_pattern("^b").matches("ab")


@pytest.mark.parametrize(("text", "problem"), [("(", "not a valid regular"), ("a" * 1001, "longer than 1,000")])
def test_an_invalid_pattern_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compile_pattern(text)


def test_a_search_that_takes_too_long_is_stopped() -> None:
    start_time = time.process_time()
    with pytest.raises(TimeoutError):
        compile_pattern(r"(\w+\s?)+(\w+\s?)+(\w+\s?)+$").matches("word " * 5000 + "!")
    assert time.process_time() - start_time < 5
