from __future__ import annotations

import pytest

from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.text_query import (
    MAX_QUESTION_CHARS,
    escape_query,
    keywords_of_vocabulary,
    text_query,
)
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer
from tests.fakes import query_strings
from tests.fakes.recorded_tokenizer import RecordedTokenizer

PORTABLE = TermWeights(PortableTokenizer())
RECORDED = TermWeights(RecordedTokenizer())

GOLDEN = {
    "how does elasticsearch hybrid search ranking work today": (
        "(elasticsearch^0.1917 ) (hybrid^0.1656 ) (search^0.1656 ) (rank^0.1578 ) (work^0.1578 ) (today^0.1617 ) "
        '"elasticsearch hybrid"^0.3834 "hybrid search"^0.3311 "search rank"^0.3311 "rank work"^0.3155 '
        '"work today"^0.3233',
        ("elasticsearch", "hybrid", "search", "rank", "work", "today"),
        0.0,
    ),
    "hybrid search": (
        '((hybrid)^0.5 (search)^0.5 ("hybrid search"~2)^1.5)',
        ("hybrid search", "hybrid", "search"),
        0.3,
    ),
    "请问如何使用检索组件": (
        '((组件)^0.5137257566448833 (检索)^0.25225392837659566 (使用)^0.23402031497852116 ("使用 检索 组件"~2)^1.5)',
        ("使用检索组件", "组件", "检索", "使用"),
        0.3,
    ),
}


@pytest.mark.parametrize(("question", "expected"), GOLDEN.items(), ids=["latin", "short", "chinese"])
def test_queries_are_those_measured(question: str, expected: tuple[str, tuple[str, ...], float]) -> None:
    found = text_query(question, RECORDED)
    assert (found.text, found.keywords, found.min_match) == expected
    if question.isascii():
        assert text_query(question, PORTABLE) == found


@pytest.mark.parametrize(("vector_weight", "min_match"), [(0.0, 0.3), (0.79, 0.3), (0.8, 0.0), (1.0, 0.0)])
def test_the_weight_of_the_vectors_decides_how_much_has_to_match(vector_weight: float, min_match: float) -> None:
    assert text_query("hybrid search", PORTABLE, vector_weight=vector_weight).min_match == min_match
    assert text_query("a hybrid search of many words", PORTABLE, vector_weight=vector_weight).min_match == 0.0


def test_without_a_dictionary_all_possible_words_are_asked_for() -> None:
    found = text_query("请问如何使用检索", PORTABLE)
    words = ["使用", "使用检", "使用检索", "用检", "用检索", "检索"]
    assert found.keywords == ("使用检索", *words)
    assert [clause.partition(")^")[0] for clause in found.text.strip("()").split(" (")] == words
    assert found.min_match == pytest.approx(0.05)


def test_the_words_that_chunks_have_become_the_keywords() -> None:
    keywords, weights = keywords_of_vocabulary("请问如何使用检索组件", PORTABLE, [["检索"], ["组件", "使用", "rank"]])
    assert keywords == ("使用检索组件", "使用", "检索", "组件")
    assert not weights.tokenizer.overlaps


def test_synonyms_stand_beside_their_word() -> None:
    synonyms = {"bike": ["bicycle"], "hybrid": ["mixed kind", "blend"], "hybrid search": ["fusion"]}
    latin = text_query("repairing my bike near north stairs quickly", PORTABLE, synonyms=synonyms)
    assert '"bicycl"^' in latin.text
    assert latin.keywords[-1] == "bicycl"
    short = text_query("hybrid search", PORTABLE, synonyms=synonyms)
    assert short.text == (
        '((((hybrid OR ("mix kind" blend)^0.2))^0.5 (search)^0.5 ("hybrid search"~2)^1.5)^5 OR ("fusion")^0.7)'
    )
    query_strings.parse(latin.text)
    query_strings.parse(short.text)


@pytest.mark.parametrize("question", ["", " ", "?!", "“”", "\u3000"])
def test_a_question_without_words_has_no_query(question: str) -> None:
    assert text_query(question, PORTABLE).text == ""


@pytest.mark.parametrize(
    "question",
    ["bicycle " * 9_000, "自行车" * 9_000, "a b " * 9_000, "1,2.3 " * 9_000],
    ids=["latin", "zh", "ab", "numbers"],
)
def test_a_huge_question_makes_a_bounded_query(question: str) -> None:
    assert len(question) > MAX_QUESTION_CHARS
    found = text_query(question, PORTABLE)
    query_strings.parse(found.text)
    assert "e-" not in found.text
    assert len(found.text) < 200_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a:b* OR "c"', r"a\:b\* OR \"c\""),
        ("x/y\\z", r"x\/y\\z"),
        ("<b>'q'\n", "bq"),
        ("a && !b || (c)^2~", r"a \&\& \!b \|\| \(c\)\^2\~"),
    ],
)
def test_signs_of_the_grammar_are_escaped(text: str, expected: str) -> None:
    assert escape_query(text) == expected
