from __future__ import annotations

import pytest

from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer
from tests.fakes.recorded_tokenizer import RecordedTokenizer

PORTABLE = TermWeights(PortableTokenizer())
RECORDED = TermWeights(RecordedTokenizer())


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ("elasticsearch hybrid search", [0.3667, 0.3167, 0.3167]),
        ("zorblat frimble 2024 ab", [0.2285, 0.2285, 0.5408, 0.0022]),
    ],
)
def test_weights_are_those_measured(terms: str, expected: list[float]) -> None:
    assert [round(weight, 4) for _, weight in RECORDED.of_terms(terms.split())] == expected


def test_a_name_and_a_class_weigh_more() -> None:
    named = dict(TermWeights(PortableTokenizer(), {"acme": "corp"}).of_terms(["acme", "emca"]))
    assert named["acme"] == pytest.approx(3 * named["emca"])
    classed = RECORDED.of_terms(["组件", "检索"])
    assert classed[0][1] > 1.9 * classed[1][1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d", ["a b c d"]),
        ("a b c d e", ["a b", "c d e"]),
        ("1 word", ["1", "word"]),
        ("x 检索 word", ["x 检索", "word"]),
        ("请问 检索 的 word", ["检索", "word"]),
        ("", []),
    ],
)
def test_short_terms_in_a_row_are_one(text: str, expected: list[str]) -> None:
    found = TermWeights(RecordedTokenizer()).of_text(text)
    assert [term for term, _ in found] == expected
    assert not found or sum(weight for _, weight in found) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("hybrid search 检索 2024", ["hybrid search", "检索", "2024"]), ("a1 b", ["a1", "b"]), (" ", [])],
)
def test_latin_words_in_a_row_are_one_term(text: str, expected: list[str]) -> None:
    assert PORTABLE.split(text) == expected


def test_a_huge_word_has_a_weight() -> None:
    assert PORTABLE.of_terms(["x" * 100_000]) == [("x" * 100_000, 1.0)]
