import sys
from pathlib import Path

import pytest

from ragflow_lg.adapters.elasticsearch.tokenizers import (
    PORTABLE,
    PortableTokenizer,
    VocabularyTokenizer,
    is_chinese,
    load_infinity_tokenizer,
    to_half_width,
)
from ragflow_lg.base.errors import SettingsError
from tests.harness.rows import each_row

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


@each_row(
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
    ("text", "expected"), [("洗衣房在地下室", "洗衣房 在 地下室"), ("洗衣机 rooms", "洗衣 机 room"), ("新", "新")]
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


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "infinity").mkdir()
    (tmp_path / "infinity" / "__init__.py").write_text("raise AssertionError('the package is not imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "infinity", raising=False)
    return tmp_path / "infinity" / "rag_tokenizer.py"


def test_only_the_module_of_the_tokenizer_is_loaded(package: Path) -> None:
    package.write_text("NO_DATA = False\n" + MODULE)
    tokenizer = load_infinity_tokenizer()
    assert tokenizer.name == "ragflow-ranking"
    assert tokenizer.tokenize("Hybrid Search") == ["hybrid", "search"]
    assert tokenizer.split_token("ab") == ["a", "b"]
    assert (tokenizer.frequency("x"), tokenizer.word_class("x")) == (7, "n")
    assert tokenizer.to_simplified("檢Ａ") == "检A"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NO_DATA = True\n" + MODULE, "NLTK has no 'punkt_tab'.*nltk.downloader"),
        ("import not_there_at_all", r"not_there_at_all is not installed\. Install it"),
        (None, r"infinity-sdk is not installed\. Install it"),
    ],
    ids=["data", "dependency", "package"],
)
def test_an_error_names_what_is_not_installed(package: Path, code: str | None, text: str) -> None:
    if code is not None:
        package.write_text(code)
    with pytest.raises(SettingsError, match=text):
        load_infinity_tokenizer()
