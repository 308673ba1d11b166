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
def test_texts_are_split_into_tokens(text: str, expected: str) -> None:
    assert PortableTokenizer().tokenize(text) == expected.split()


def test_the_portable_tokenizer_has_no_dictionary() -> None:
    tokenizer = PortableTokenizer()
    assert tokenizer.name == PORTABLE == "es-portable"
    assert (tokenizer.frequency("的"), tokenizer.word_class("的"), tokenizer.split_token("南京市")) == (
        0,
        "",
        ["南京市"],
    )
    assert tokenizer.to_simplified("檢索") == "檢索"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("洗衣房在地下室", "洗衣房 在 地下室"),
        ("洗衣机 rooms", "洗衣 机 room"),
        ("新", "新"),
    ],
)
def test_texts_are_split_into_words_of_a_vocabulary(text: str, expected: str) -> None:
    tokenizer = VocabularyTokenizer(["洗衣", "洗衣房", "地下室", "room", "在"])
    assert tokenizer.tokenize(text) == expected.split()
    assert not tokenizer.overlaps
    assert VocabularyTokenizer([]).tokenize("北楼") == ["北", "楼"]


def test_a_huge_word_is_not_stemmed() -> None:
    assert PortableTokenizer().tokenize("a" * 100_000) == ["a" * 100_000]


def test_full_width_characters_become_ascii() -> None:
    assert to_half_width("（ａ）　") == "(a) "


def test_only_ragflows_range_is_chinese() -> None:
    assert is_chinese("检")
    assert not is_chinese("か")
