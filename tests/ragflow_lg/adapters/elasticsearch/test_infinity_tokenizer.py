"""The real package is not installed for tests; a small module with the same interface replaces it."""

import sys
from pathlib import Path

import pytest

from ragflow_lg.adapters.elasticsearch.infinity_tokenizer import load_infinity_tokenizer
from ragflow_lg.base.errors import SettingsError

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
