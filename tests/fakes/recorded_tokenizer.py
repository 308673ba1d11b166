"""Results of RAGFlow's tokenizer, from infinity-sdk 0.7.4 (its NLTK parts replaced; see elasticsearch.md).

Other texts are split by the portable tokenizer.
"""

from ragflow_lg.integrations.elasticsearch.tokenizers import Tokenizer

_TOKENS = {"使用检索组件": ["使用", "检索", "组件"], "请问 检索 的 word": ["请问", "检索", "的", "word"]}
_WORDS = {"使用": (49787, "v"), "检索": (912, "vn"), "组件": (335, "n"), "ab": (6, "nr"), "的": (0, "uj")}


class RecordedTokenizer(Tokenizer):
    """A `Tokenizer` with recorded results."""

    overlaps = False

    def tokenize(self, text: str) -> list[str]:
        return _TOKENS.get(text) or super().tokenize(text)

    def frequency(self, token: str) -> int:
        return _WORDS.get(token, (0, ""))[0]

    def word_class(self, token: str) -> str:
        return _WORDS.get(token, (0, ""))[1]
