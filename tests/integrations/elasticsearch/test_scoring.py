"""Tokens, weights, queries and scores equal those of RAGFlow."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.integrations.elasticsearch.connection import SearchHit
from ragflow_lg.integrations.elasticsearch.ranking import ScoredChunk, list_rerank_terms, list_terms, rank, score_terms
from ragflow_lg.integrations.elasticsearch.search_requests import (
    Body,
    Scope,
    build_candidates_request,
    build_chunks_request,
    build_filter_request,
    build_metadata_request,
    build_search_result,
    build_vectors_request,
)
from ragflow_lg.integrations.elasticsearch.term_weights import Dictionaries, TermWeights, read_dictionaries
from ragflow_lg.integrations.elasticsearch.text_query import (
    MAX_QUESTION_CHARS,
    TextQuery,
    build_text_query,
    extract_vocabulary_keywords,
)
from ragflow_lg.integrations.elasticsearch.tokenizers import Tokenizer, VocabularyTokenizer, load_infinity_tokenizer
from tests.conftest import FIXTURES
from tests.fakes import query_strings
from tests.fakes.recorded_tokenizer import RecordedTokenizer
from tests.harness.rows import each_row, read_rows

PORTABLE = TermWeights(Tokenizer())
RECORDED = TermWeights(RecordedTokenizer())


@each_row(
    ("text", "expected"),
    [
        ("The quick brown foxes jumped over lazy dogs in 2024.", "the quick brown fox jump over lazi dog in 2024"),
        ("洗衣房在北", "洗衣 洗衣房 洗衣房在 衣房 衣房在 衣房在北 房在 房在北 在北"),
        ("房", "房"),
        ("RAG检索abc", "rag 检索 abc"),
        ("Привет мир", "привет мир"),
        ("ＡＢＣ１２３", "abc123"),
        ("?! \ud800", ""),
        ("a" * 100_000, "a" * 100_000),
    ],
)
def test_texts_are_split_into_tokens(text: str, expected: str) -> None:
    assert Tokenizer().tokenize(text) == expected.split()


@each_row(
    ("text", "expected"), [("洗衣房在地下室", "洗衣房 在 地下室"), ("洗衣机 rooms", "洗衣 机 room"), ("新", "新")]
)
def test_texts_are_split_into_words_of_a_vocabulary(text: str, expected: str) -> None:
    tokenizer = VocabularyTokenizer(["洗衣", "洗衣房", "地下室", "room", "在"])
    assert tokenizer.tokenize(text) == expected.split()


MODULE = """
class HanziConv:
    @staticmethod
    def toSimplified(text):
        return text.replace("檢", "检")

class RagTokenizer:
    def tokenize(self, text):
        if NO_DATA:
            raise LookupError("\\n***\\n  Resource 'punkt_tab' not found.\\n")
        return text.lower()
    def fine_grained_tokenize(self, text):
        return " ".join(text)
    def freq(self, token):
        return 7
    def tag(self, token):
        return "n"
"""


def test_only_the_module_of_infinitys_tokenizer_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "infinity"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('the package is not imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "infinity", raising=False)
    for code, problem in (
        (None, r"infinity-sdk is not installed\. Install it"),
        ("NO_DATA = True\n" + MODULE, "NLTK has no 'punkt_tab'.*nltk.downloader"),
        ("import not_there_at_all", r"not_there_at_all is not installed\. Install it"),
    ):
        if code:
            (package / "rag_tokenizer.py").write_text(code)
        with pytest.raises(SettingsError, match=problem):
            load_infinity_tokenizer()
    (package / "rag_tokenizer.py").write_text("NO_DATA = False\n" + MODULE)
    tokenizer = load_infinity_tokenizer()
    assert (tokenizer.tokenize("Hybrid Search"), tokenizer.split_token("ab")) == (["hybrid", "search"], ["a", "b"])
    assert (tokenizer.frequency("x"), tokenizer.word_class("x")) == (7, "n")
    assert tokenizer.to_simplified("檢Ａ") == "检A"


def test_weights_equal_those_of_ragflow() -> None:
    for terms, expected in (
        ("elasticsearch hybrid search", [0.3667, 0.3167, 0.3167]),
        ("zorblat frimble 2024 ab", [0.2285, 0.2285, 0.5408, 0.0022]),
    ):
        assert [round(weight, 4) for _, weight in RECORDED.weigh_terms(terms.split())] == expected
    weights = dict(TermWeights(Tokenizer(), {"acme": "corp"}).weigh_terms(["acme", "emca"]))
    assert weights["acme"] == pytest.approx(3 * weights["emca"])
    noun, verbal_noun = RECORDED.weigh_terms(["组件", "检索"])
    assert noun[1] > 1.9 * verbal_noun[1]
    assert PORTABLE.weigh_terms(["x" * 100_000]) == [("x" * 100_000, 1.0)]


@each_row(
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
def test_consecutive_short_terms_are_joined(text: str, expected: list[str]) -> None:
    weighted_terms = RECORDED.weigh_text(text)
    assert [term for term, _ in weighted_terms] == expected
    assert not weighted_terms or sum(weight for _, weight in weighted_terms) == pytest.approx(1)


def test_names_and_synonyms_are_read(tmp_path: Path) -> None:
    for content in (None, "{", "[" * 200_000, "[]"):
        if content:
            (tmp_path / "ner.json").write_text(content)
        with pytest.raises(SettingsError, match=r"neither ner.json nor|is not JSON|not a JSON object"):
            read_dictionaries(tmp_path)
    (tmp_path / "ner.json").write_text('{"acme": "corp", "odd": 1}')
    (tmp_path / "synonym.json").write_text('{"Bike": ["bicycle", 2], "car": "auto", "odd": 1}')
    assert read_dictionaries(tmp_path) == Dictionaries({"acme": "corp"}, {"bike": ["bicycle"], "car": ["auto"]})


@each_row(("question", "text", "keywords", "min_match"), read_rows("text_queries"))
def test_queries_equal_those_of_ragflow(question: str, text: str, keywords: list[str], min_match: float) -> None:
    query = build_text_query(question, RECORDED)
    assert (query.text, list(query.keywords), query.min_match) == (text, keywords, min_match)
    if question.isascii():
        assert build_text_query(question, PORTABLE) == query


@each_row(("vector_weight", "min_match"), [(0.0, 0.3), (0.79, 0.3), (0.8, 0.0), (1.0, 0.0)])
def test_the_share_of_matching_words_depends_on_the_vector_weight(vector_weight: float, min_match: float) -> None:
    assert build_text_query("hybrid search", PORTABLE, vector_weight=vector_weight).min_match == min_match
    assert build_text_query("a hybrid search of many words", PORTABLE, vector_weight=vector_weight).min_match == 0.0


def test_without_a_dictionary_the_query_has_all_possible_words() -> None:
    query = build_text_query("请问如何使用检索", PORTABLE)
    words = ["使用", "使用检", "使用检索", "用检", "用检索", "检索"]
    assert query.keywords == ("使用检索", *words)
    assert [clause.partition(")^")[0] for clause in query.text.strip("()").split(" (")] == words
    assert query.min_match == pytest.approx(0.05)
    chunks = [["检索"], ["组件", "使用", "rank"]]
    keywords, weights = extract_vocabulary_keywords("请问如何使用检索组件", PORTABLE, chunks)
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


def test_any_question_has_a_bounded_query() -> None:
    for question in ("", " ", "?!", "“”", "\u3000"):
        assert build_text_query(question, PORTABLE).text == ""
    for question in ("bicycle " * 9_000, "自行车" * 9_000, "a b " * 9_000, "1,2.3 " * 9_000):
        assert len(question) > MAX_QUESTION_CHARS
        query = build_text_query(question, PORTABLE)
        query_strings.parse(query.text)
        assert "e-" not in query.text
        assert len(query.text) < 200_000


def test_term_scores_count_terms_and_pairs_of_terms() -> None:
    chunks = [["zorblat", "frimble"], ["frimble", "zorblat"], ["zorblat"], ["other"], []]
    scores = score_terms(["zorblat", "frimble"], chunks, PORTABLE)
    assert scores == pytest.approx([1.0, 0.5714, 0.2857, 0.0, 0.0], abs=5e-5)
    assert score_terms([], [["a"], []], PORTABLE) == [1.0, 1.0]
    fields: dict[str, JsonValue] = {"content_ltks": "a b a", "title_tks": "t u", "important_kwd": ["k l"]}
    fields["question_tks"] = "q"
    assert list_terms(fields) == ["a", "b", *["t", "u"] * 2, *["k l"] * 5, *["q"] * 6]
    assert list_rerank_terms(fields) == ["a", "b", "a", "t", "u", "k l"]
    odd: dict[str, JsonValue] = {"content_ltks": None, "important_kwd": "one", "title_tks": ["x y", 3]}
    assert list_terms(odd) == [*["x", "y"] * 2, *["one"] * 5]


@each_row(
    ("threshold", "vector_weight", "fields", "expected"),
    [
        (0.3, 0.25, {}, [("b", 0.425), ("a", 0.3), ("c", 0.3)]),  # equal to the threshold; the order is stable
        (0.31, 0.25, {}, [("b", 0.425)]),
        (0.31, 0.0, {}, [("b", 0.4), ("a", 0.2), ("c", 0.2)]),  # without vectors there is no threshold
        (0.0, 1.0, {"pagerank_fea": 3}, [("b", 3.5), ("a", 0.6), ("c", 0.6)]),
        (0.0, 1.0, {"pagerank_fea": float("nan")}, [("a", 0.6), ("c", 0.6), ("b", 0.5)]),
    ],
)
def test_scores_are_combined(
    threshold: float, vector_weight: float, fields: dict[str, JsonValue], expected: list[tuple[str, float]]
) -> None:
    candidates = [SearchHit("a", 0.0, {}), SearchHit("b", 0.0, fields), SearchHit("c", 0.0, {})]
    chunks = rank(candidates, [0.2, 0.4, 0.2], [0.6, 0.5, 0.6], vector_weight=vector_weight, threshold=threshold)
    assert [(scored.candidate.id, round(scored.similarity, 6)) for scored in chunks] == expected


GUIDE = Scope(("kb-guide", "kb-letters"))
ONE_DOCUMENT = Scope(("kb-guide",), ("doc-bikes.md",))
VECTOR = [0.5, 0.25, -0.125, 0.0]
WEIGHTS = TermWeights(RecordedTokenizer())


def build_request(question: str, scope: Scope) -> Body:
    query = build_text_query(question, WEIGHTS)
    return build_candidates_request(query, VECTOR, scope, top_k=1024, size=64, similarity=0.2)


REQUESTS: dict[str, Body] = {
    "candidates_latin": build_request("how does elasticsearch hybrid search ranking work today", GUIDE),
    "candidates_chinese": build_request("请问如何使用检索组件", ONE_DOCUMENT),
    "candidates_without_words": build_request("?!", GUIDE),
    "filtered": build_filter_request(ONE_DOCUMENT, 64),
    "vectors": build_vectors_request(VECTOR, ["c1", "c2"], GUIDE),
    "chunks": build_chunks_request(["parent"], GUIDE),
    "metadata": build_metadata_request(["kb-guide"]),
}


@each_row("name", REQUESTS)
def test_requests_equal_their_files(name: str) -> None:
    expected: dict[str, Any] = json.loads((FIXTURES / "elasticsearch" / f"{name}.json").read_text(encoding="utf-8"))
    assert REQUESTS[name] == expected


@pytest.mark.parametrize(
    ("top_k", "k", "candidates"), [(8, 8, 16), (1024, 1024, 2048), (6000, 6000, 10_000), (99_999, 10_000, 10_000)]
)
def test_neighbours_do_not_exceed_the_limit_of_the_server(top_k: int, k: int, candidates: int) -> None:
    body = build_candidates_request(TextQuery("a", ("a",)), VECTOR, GUIDE, top_k=top_k, size=64, similarity=0.2)
    assert (body["knn"]["k"], body["knn"]["num_candidates"]) == (k, candidates)


def scored_chunk(id_: str, similarity: float, document: str = "a.md", **fields: Any) -> ScoredChunk:
    fields = {"docnm_kwd": document, "doc_id": f"doc-{document}", "content_with_weight": f"text of {id_}", **fields}
    return ScoredChunk(SearchHit(id_, 0.0, fields), similarity, similarity / 2, similarity / 4)


def test_chunks_have_the_fields_of_ragflow() -> None:
    (chunk,) = build_search_result(
        [scored_chunk("1", 0.8, kb_id="k", img_id="i", position_int=[[1, 2, 3, 4, 5]], odd=1)], 8
    ).chunks
    assert chunk == {
        **{
            "chunk_id": "1",
            "content_with_weight": "text of 1",
            "doc_id": "doc-a.md",
            "docnm_kwd": "a.md",
            "kb_id": "k",
        },
        **{"important_kwd": [], "tag_kwd": [], "image_id": "i", "similarity": 0.8, "vector_similarity": 0.2},
        **{"term_similarity": 0.4, "positions": [[1, 2, 3, 4, 5]], "doc_type_kwd": "", "mom_id": "", "row_id": None},
    }
