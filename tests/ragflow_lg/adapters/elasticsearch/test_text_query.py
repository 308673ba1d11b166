import pytest

from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.text_query import (
    MAX_QUESTION_CHARS,
    build_text_query,
    escape_query,
    extract_vocabulary_keywords,
    is_mostly_chinese,
    remove_question_words,
)
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer
from tests.fakes import query_strings
from tests.fakes.recorded_tokenizer import RecordedTokenizer
from tests.harness.rows import each_row

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
def test_queries_equal_those_of_ragflow(question: str, expected: tuple[str, tuple[str, ...], float]) -> None:
    query = build_text_query(question, RECORDED)
    assert (query.text, query.keywords, query.min_match) == expected
    if question.isascii():
        assert build_text_query(question, PORTABLE) == query


@pytest.mark.parametrize(("vector_weight", "min_match"), [(0.0, 0.3), (0.79, 0.3), (0.8, 0.0), (1.0, 0.0)])
def test_the_share_of_matching_words_depends_on_the_vector_weight(vector_weight: float, min_match: float) -> None:
    assert build_text_query("hybrid search", PORTABLE, vector_weight=vector_weight).min_match == min_match
    assert build_text_query("a hybrid search of many words", PORTABLE, vector_weight=vector_weight).min_match == 0.0


def test_without_a_dictionary_the_query_has_all_possible_words() -> None:
    query = build_text_query("请问如何使用检索", PORTABLE)
    words = ["使用", "使用检", "使用检索", "用检", "用检索", "检索"]
    assert query.keywords == ("使用检索", *words)
    assert [clause.partition(")^")[0] for clause in query.text.strip("()").split(" (")] == words
    assert query.min_match == pytest.approx(0.05)


def test_keywords_are_words_of_the_chunks() -> None:
    keywords, weights = extract_vocabulary_keywords(
        "请问如何使用检索组件", PORTABLE, [["检索"], ["组件", "使用", "rank"]]
    )
    assert keywords == ("使用检索组件", "使用", "检索", "组件")
    assert not weights.tokenizer.overlaps


def test_synonyms_are_added_to_their_word() -> None:
    synonyms = {"bike": ["bicycle"], "hybrid": ["mixed kind", "blend"], "hybrid search": ["fusion"]}
    latin = build_text_query("repairing my bike near north stairs quickly", PORTABLE, synonyms=synonyms)
    assert '"bicycl"^' in latin.text
    assert latin.keywords[-1] == "bicycl"
    short = build_text_query("hybrid search", PORTABLE, synonyms=synonyms)
    assert short.text == (
        '((((hybrid OR ("mix kind" blend)^0.2))^0.5 (search)^0.5 ("hybrid search"~2)^1.5)^5 OR ("fusion")^0.7)'
    )
    query_strings.parse(latin.text)
    query_strings.parse(short.text)


@each_row("question", ["", " ", "?!", "“”", "\u3000"])
def test_a_question_without_words_has_no_query(question: str) -> None:
    assert build_text_query(question, PORTABLE).text == ""


@pytest.mark.parametrize(
    "question",
    ["bicycle " * 9_000, "自行车" * 9_000, "a b " * 9_000, "1,2.3 " * 9_000],
    ids=["latin", "zh", "ab", "numbers"],
)
def test_the_query_of_a_huge_question_is_limited(question: str) -> None:
    assert len(question) > MAX_QUESTION_CHARS
    query = build_text_query(question, PORTABLE)
    query_strings.parse(query.text)
    assert "e-" not in query.text
    assert len(query.text) < 200_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a:b* OR "c"', r"a\:b\* OR \"c\""),
        ("x/y\\z", r"x\/y\\z"),
        ("<b>'q'\n", "bq"),
        ("a && !b || (c)^2~", r"a \&\& \!b \|\| \(c\)\^2\~"),
    ],
)
def test_special_characters_are_escaped(text: str, expected: str) -> None:
    assert escape_query(text) == expected


@each_row(
    ("text", "expected"),
    [
        ("how does elasticsearch hybrid search ranking work", " elasticsearch hybrid search ranking work"),
        ("what is the price", " the price"),  # only one of two neighbours is removed
        ("请问如何使用检索组件", "使用检索组件"),
        ("谁是张三", "张三"),
        ("怎么", "怎么"),
        ("hybrid", "hybrid"),
    ],
)
def test_question_words_are_removed(text: str, expected: str) -> None:
    assert remove_question_words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two three", True),
        ("one two three four", False),
        ("检索 组件 ragflow 2024 v1.2", True),
        ("检索 组件 with ragflow today", False),
    ],
)
def test_short_texts_and_texts_with_few_latin_words_count_as_chinese(text: str, expected: bool) -> None:
    assert is_mostly_chinese(text) is expected
