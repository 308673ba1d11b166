from __future__ import annotations

import pytest

from ragflow_lg.adapters.elasticsearch.tokenizers import (
    PORTABLE,
    PortableTokenizer,
    VocabularyTokenizer,
    is_chinese,
    to_half_width,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Hello world, the quick brown foxes jumped over lazy dogs in 2024.",
            "hello world the quick brown fox jump over lazi dog in 2024",
        ),
        ("洗衣房在北", "洗衣 洗衣房 洗衣房在 衣房 衣房在 衣房在北 房在 房在北 在北"),
        ("房", "房"),
        ("RAG检索abc", "rag 检索 abc"),
        ("Привет мир", "привет мир"),
        ("ＡＢＣ１２３", "abc123"),
        ("?! \ud800", ""),
    ],
)
def test_texts_are_cut(text: str, expected: str) -> None:
    assert PortableTokenizer().tokens(text) == expected.split()


def test_it_knows_no_word_and_says_what_it_is() -> None:
    tokenizer = PortableTokenizer()
    assert tokenizer.name == PORTABLE == "es-portable"
    assert (tokenizer.frequency("的"), tokenizer.word_class("的"), tokenizer.parts("南京市")) == (0, "", ["南京市"])
    assert tokenizer.simplified("檢索") == "檢索"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("洗衣房在地下室", "洗衣房 在 地下室"),
        ("洗衣机 rooms", "洗衣 机 room"),
        ("新", "新"),
    ],
)
def test_words_of_a_vocabulary_are_found(text: str, expected: str) -> None:
    tokenizer = VocabularyTokenizer(["洗衣", "洗衣房", "地下室", "room", "在"])
    assert tokenizer.tokens(text) == expected.split()
    assert not tokenizer.overlaps
    assert VocabularyTokenizer([]).tokens("北楼") == ["北", "楼"]


def test_a_huge_word_is_not_stemmed() -> None:
    assert PortableTokenizer().tokens("a" * 100_000) == ["a" * 100_000]


def test_signs() -> None:
    assert to_half_width("（ａ）　") == "(a) "
    assert is_chinese("检")
    assert not is_chinese("か")
