"""Agreement of the portable tokenizer's ranking with RAGFlow's: ``python -m tests.campaigns rank-agreement``.

The index always uses RAGFlow's tokenizer; only questions are tokenized by both. Needs ``infinity-sdk`` 0.7.4. Without
NLTK's data, a regular expression replaces its word splitter and the lemmatiser is disabled, which the output notes.
"""

import random
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ragflow_lg.adapters.elasticsearch import tokenizers
from ragflow_lg.adapters.elasticsearch.ranking import Candidate, list_terms, rank, score_terms
from ragflow_lg.adapters.elasticsearch.search_requests import FIELDS
from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.text_query import build_text_query, extract_vocabulary_keywords
from ragflow_lg.adapters.elasticsearch.tokenizers import (
    InfinityTokenizer,
    PortableTokenizer,
    Tokenizer,
    load_infinity_tokenizer,
)
from ragflow_lg.base.errors import SettingsError
from tests.fakes import query_strings

CHUNKS = 200
QUESTIONS = 60
TOP = 8

_ENGLISH = """
who: the caretaker|every tenant|our supplier|the finance team|a new colleague|the night shift
does: repairs|orders|inspects|stores|reports|replaces|archives|approves|cleans|measures
what: the heating valves|bicycle labels|laundry tokens|invoices of suppliers|fire extinguishers|delivery notes
what: meeting minutes|water meters|solar panels|server backups|travel expenses|visitor badges
when: before every winter|within 14 days|on the first Monday of a month|after an accident|twice in 2024
where: in the basement|at the north gate|in the archive|on the third floor|beside the canteen
"""
_CHINESE = """
who: 管理员|每位租户|供应商|财务部门|新同事|夜班工程师
does: 维修|采购|检查|存放|报告|更换|归档|审批|清洁|测量
what: 暖气阀门|自行车标签|洗衣机|供应商发票|灭火器|送货单|会议记录|水表|太阳能电池板|数据库备份|差旅费用|访客证件
when: 每年冬季之前|十四天之内|每月第一个星期一|事故发生之后|二零二四年两次|暑假期间
where: 在地下室|在北门|在档案室|在三楼|在食堂旁边
"""


class Agreement(NamedTuple):
    """Shares of all questions; ``overlap`` is the share of common chunks among the first `TOP`."""

    first: float
    overlap: float
    same_order: float
    candidates: float


def main() -> int:
    """Print the agreement for both languages."""
    exact, note = _load_exact_tokenizer()
    if exact is None:
        print(note, file=sys.stderr)
        return 2
    print(f"Index: {exact.name} (infinity-sdk){note}; {CHUNKS} chunks and {QUESTIONS} questions per language")
    for language, words in (("English", _ENGLISH), ("Chinese", _CHINESE)):
        agreement = measure(exact, PortableTokenizer(), _read(words), is_chinese=language == "Chinese")
        print(
            f"{language}: same first chunk {agreement.first:.1%}, "
            f"common among the first {TOP} {agreement.overlap:.1%}, "
            f"same order of all {TOP} {agreement.same_order:.1%}, common candidates {agreement.candidates:.1%}"
        )
    return 0


def measure(
    exact: Tokenizer, other: Tokenizer, words: dict[str, list[str]], *, is_chinese: bool, seed: int = 7
) -> Agreement:
    """Rank the same chunks for the same questions with both tokenizers, without vectors, and compare."""
    random_ = random.Random(seed)
    texts = [_text(words, random_, is_chinese=is_chinese) for _ in range(CHUNKS)]
    chunks = [_chunk(at, text, exact) for at, text in enumerate(texts)]
    rows: list[Agreement] = []
    for _ in range(QUESTIONS):
        question = _question(words, random_, is_chinese=is_chinese)
        expected, actual = _rank_chunks(question, chunks, exact), _rank_chunks(question, chunks, other)
        best, top = expected[:TOP], actual[:TOP]
        overlap = len(set(best) & set(top)) / max(len(best), 1)
        candidates = len(set(expected) & set(actual)) / max(len(expected), 1)
        rows.append(Agreement(best[:1] == top[:1], overlap, best == top, candidates))
    return Agreement(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))


def _read(words: str) -> dict[str, list[str]]:
    roles: dict[str, list[str]] = {}
    for line in words.strip().splitlines():
        role, _, entries = line.partition(": ")
        roles.setdefault(role, []).extend(entries.split("|"))
    return roles


def _text(words: dict[str, list[str]], random_: random.Random, *, is_chinese: bool) -> str:
    sentences = [[random_.choice(words[role]) for role in ("who", "does", "what", "when", "where")] for _ in range(3)]
    return (
        "".join(f"{''.join(p)}。" for p in sentences) if is_chinese else " ".join(f"{' '.join(p)}." for p in sentences)
    )


def _question(words: dict[str, list[str]], random_: random.Random, *, is_chinese: bool) -> str:
    who, does, what, when = (random_.choice(words[role]) for role in ("who", "does", "what", "when"))
    return f"请问{who}{when}如何{does}{what}？" if is_chinese else f"How and when does {who} {does} {what} {when}?"


def _chunk(at: int, text: str, exact: Tokenizer) -> Candidate:
    coarse = exact.tokenize(text)
    fine = " ".join(part for token in coarse for part in exact.split_token(token))
    return Candidate(str(at), {"content_ltks": " ".join(coarse), "content_sm_ltks": fine})


def _rank_chunks(question: str, chunks: Sequence[Candidate], tokenizer: Tokenizer) -> list[str]:
    """Return the ids of the chunks that match a question, best first by their terms."""
    weights = TermWeights(tokenizer)
    query = build_text_query(question, weights)
    parsed = query_strings.parse(query.text)
    fields = [name.partition("^")[0] for name in FIELDS]
    percent = round(100 * query.min_match)
    matches = [chunk for chunk in chunks if query_strings.matches(parsed, chunk.fields, fields, percent)]
    tokens = [list_terms(chunk.fields) for chunk in matches]
    keywords: Sequence[str] = query.keywords
    if tokenizer.overlaps:
        keywords, weights = extract_vocabulary_keywords(question, weights, tokens)
    terms = score_terms(keywords, tokens, weights)
    ranking = rank(matches, terms, [0.0] * len(matches), vector_weight=0.0, threshold=0.0)
    return [scored.candidate.id for scored in ranking]


def _load_exact_tokenizer() -> tuple[InfinityTokenizer | None, str]:
    try:
        return load_infinity_tokenizer(), ""
    except SettingsError as error:
        if "NLTK has no" not in str(error):
            return None, str(error)
    module: Any = tokenizers._load_module()  # pyright: ignore[reportPrivateUsage] - its splitter is replaced
    module.word_tokenize = re.compile(r"[A-Za-z0-9_]+|[^\sA-Za-z0-9_]").findall
    tokenizer = module.RagTokenizer()
    tokenizer.lemmatizer.lemmatize = str
    return InfinityTokenizer(tokenizer, module.HanziConv.toSimplified), ", NLTK's splitter replaced, no lemmas"


if __name__ == "__main__":
    sys.exit(main())
