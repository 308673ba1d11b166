from pathlib import Path

import pytest

from ragflow_lg.adapters.elasticsearch.term_weights import Dictionaries, TermWeights, read_dictionaries
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer
from ragflow_lg.base.errors import SettingsError
from tests.fakes.recorded_tokenizer import RecordedTokenizer
from tests.harness.rows import each_row

PORTABLE = TermWeights(PortableTokenizer())
RECORDED = TermWeights(RecordedTokenizer())


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ("elasticsearch hybrid search", [0.3667, 0.3167, 0.3167]),
        ("zorblat frimble 2024 ab", [0.2285, 0.2285, 0.5408, 0.0022]),
    ],
)
def test_weights_equal_those_of_ragflow(terms: str, expected: list[float]) -> None:
    assert [round(weight, 4) for _, weight in RECORDED.weigh_terms(terms.split())] == expected


def test_names_and_some_word_classes_weigh_more() -> None:
    weights = dict(TermWeights(PortableTokenizer(), {"acme": "corp"}).weigh_terms(["acme", "emca"]))
    assert weights["acme"] == pytest.approx(3 * weights["emca"])
    noun, verbal_noun = RECORDED.weigh_terms(["组件", "检索"])
    assert noun[1] > 1.9 * verbal_noun[1]


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
    weighted_terms = TermWeights(RecordedTokenizer()).weigh_text(text)
    assert [term for term, _ in weighted_terms] == expected
    assert not weighted_terms or sum(weight for _, weight in weighted_terms) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("hybrid search 检索 2024", ["hybrid search", "检索", "2024"]), ("a1 b", ["a1", "b"]), (" ", [])],
)
def test_consecutive_latin_words_are_one_term(text: str, expected: list[str]) -> None:
    assert PORTABLE.split(text) == expected


def test_a_huge_word_has_a_weight() -> None:
    assert PORTABLE.weigh_terms(["x" * 100_000]) == [("x" * 100_000, 1.0)]


def test_names_and_synonyms_are_read(tmp_path: Path) -> None:
    (tmp_path / "ner.json").write_text('{"acme": "corp", "odd": 1}')
    (tmp_path / "synonym.json").write_text('{"Bike": ["bicycle", 2], "car": "auto", "odd": 1}')
    assert read_dictionaries(tmp_path) == Dictionaries({"acme": "corp"}, {"bike": ["bicycle"], "car": ["auto"]})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "neither ner.json nor synonym.json"),
        ("{", "is not JSON"),
        ("[" * 200_000, "is not JSON"),
        ("[]", "not a JSON object"),
    ],
    ids=["missing", "cut", "deep", "list"],
)
def test_invalid_dictionaries_are_rejected(tmp_path: Path, content: str | None, text: str) -> None:
    if content is not None:
        (tmp_path / "ner.json").write_text(content)
    with pytest.raises(SettingsError, match=text):
        read_dictionaries(tmp_path)
