"""The package itself is not installed for tests: a small module of the same shape takes its place."""

from __future__ import annotations

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
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "infinity", raising=False)
    return tmp_path / "infinity" / "rag_tokenizer.py"


def test_its_module_is_loaded_alone(package: Path) -> None:
    package.write_text("NO_DATA = False\n" + MODULE)
    tokenizer = load_infinity_tokenizer()
    assert tokenizer.name == "ragflow-ranking"
    assert tokenizer.tokens("Hybrid Search") == ["hybrid", "search"]
    assert tokenizer.parts("ab") == ["a", "b"]
    assert (tokenizer.frequency("x"), tokenizer.word_class("x")) == (7, "n")
    assert tokenizer.simplified("檢Ａ") == "检A"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NO_DATA = True\n" + MODULE, "NLTK has no 'punkt_tab'.*nltk.downloader"),
        ("import not_there_at_all", r"not_there_at_all is not installed\. Install it"),
        (None, r"infinity-sdk is not installed\. Install it"),
    ],
    ids=["data", "dependency", "package"],
)
def test_what_is_missing_is_named(package: Path, code: str | None, text: str) -> None:
    if code is not None:
        package.write_text(code)
    with pytest.raises(SettingsError, match=text):
        load_infinity_tokenizer()
