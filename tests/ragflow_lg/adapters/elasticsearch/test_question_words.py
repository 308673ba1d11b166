from __future__ import annotations

import pytest

from ragflow_lg.adapters.elasticsearch.question_words import is_mostly_chinese, without_question_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("how does elasticsearch hybrid search ranking work", " elasticsearch hybrid search ranking work"),
        ("what is the price", " the price"),  # of two neighbours one stays
        ("请问如何使用检索组件", "使用检索组件"),
        ("谁是张三", "张三"),
        ("怎么", "怎么"),
        ("hybrid", "hybrid"),
    ],
)
def test_question_words_are_left_out(text: str, expected: str) -> None:
    assert without_question_words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two three", True),
        ("one two three four", False),
        ("检索 组件 ragflow 2024 v1.2", True),
        ("检索 组件 with ragflow today", False),
    ],
)
def test_few_words_or_few_latin_ones(text: str, expected: bool) -> None:
    assert is_mostly_chinese(text) is expected
