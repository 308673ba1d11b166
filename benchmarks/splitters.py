"""Chunks and answers of text splitters, ours and LangChain's: ``python -m benchmarks.splitters``.

The texts of `benchmarks.knowledge` are paragraphs of Markdown documents with a title and sections. Each splitter cuts
the documents into chunks of the same size, which are searched by keywords. A question is answered if one of the first
five chunks contains the whole paragraph that answers it. "By section" are the same questions with the heading of the
section.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from langchain_text_splitters import Language, MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter

from benchmarks.knowledge import QUESTIONS, fill
from benchmarks.knowledge_questions import generate_chunks, generate_questions
from ragflow_lg.adapters.knowledge.chunking import split_into_chunks
from ragflow_lg.adapters.knowledge.embedded_knowledge import EmbeddedKnowledge
from ragflow_lg.adapters.knowledge.file_text import read_blocks
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.services.knowledge import DatasetSearch

DOCUMENTS, SECTIONS, PARAGRAPHS = 200, 4, 5
TOKENS, OVERLAP = 256, 32
FIRST = 5

Splitter: TypeAlias = Callable[[str], list[str]]


def write_documents(paragraphs: Sequence[str]) -> Iterator[str]:
    """Yield documents: a title, and sections with a heading and some paragraphs each."""
    size = SECTIONS * PARAGRAPHS
    for number, start in enumerate(range(0, len(paragraphs), size), 1):
        part = paragraphs[start : start + size]
        sections = (
            f"## Part {at} of list {number}\n\n" + "\n\n".join(part[first : first + PARAGRAPHS])
            for at, first in enumerate(range(0, size, PARAGRAPHS), 1)
        )
        yield f"# List {number}\n\n" + "\n\n".join(sections) + "\n"


def split(text: str) -> list[str]:
    """Split a document as `ragflow-lg kb add` does."""
    blocks = read_blocks("list.md", text.encode()).blocks
    return [chunk.content for chunk in split_into_chunks(blocks, TOKENS, OVERLAP)]


def _by_headers(text: str) -> list[str]:
    """Split a document at its headings, then in pieces, each preceded by the headings above it, as ours are."""
    headers = MarkdownHeaderTextSplitter([("#", "1"), ("##", "2")])
    sections = RecursiveCharacterTextSplitter(
        chunk_size=TOKENS, chunk_overlap=OVERLAP, length_function=estimate_tokens
    ).split_documents(headers.split_text(text))
    return [" > ".join(map(str, part.metadata.values())) + "\n" + part.page_content for part in sections]


def splitters() -> dict[str, Splitter]:
    """Return the splitters by name."""
    plain = RecursiveCharacterTextSplitter(chunk_size=TOKENS, chunk_overlap=OVERLAP, length_function=estimate_tokens)
    markdown = RecursiveCharacterTextSplitter.from_language(
        Language.MARKDOWN, chunk_size=TOKENS, chunk_overlap=OVERLAP, length_function=estimate_tokens
    )
    return {
        "ours": split,
        "RecursiveCharacterTextSplitter": plain.split_text,
        "from_language(MARKDOWN)": markdown.split_text,
        "MarkdownHeaderTextSplitter, then Recursive": _by_headers,
    }


async def count_answers(knowledge: EmbeddedKnowledge, paragraphs: Sequence[str], *, names_section: bool) -> int:
    """Return how many questions are answered; with ``names_section``, those that name the section as well."""
    (dataset,) = (await knowledge.datasets(["bench"])).values()
    answered = 0
    for question in generate_questions(len(paragraphs), QUESTIONS):
        document, at = divmod(question.chunk, SECTIONS * PARAGRAPHS)
        place = f" Part {at // PARAGRAPHS + 1} of list {document + 1}." if names_section else ""
        search = DatasetSearch(
            question.text + place, (dataset,), top_n=FIRST, similarity_threshold=0.0, keywords_similarity_weight=1.0
        )
        wanted = paragraphs[question.chunk]
        chunks = (await knowledge.search(search)).chunks
        answered += any(wanted in str(chunk["content_with_weight"]) for chunk in chunks[:FIRST])
    return answered


def main() -> None:
    """Print a row for each splitter."""
    paragraphs = generate_chunks(DOCUMENTS * SECTIONS * PARAGRAPHS)
    documents = list(write_documents(paragraphs))
    size_mb = sum(len(text.encode()) for text in documents) / 1e6
    print(f"{len(documents)} documents ({size_mb:.1f} MB), {TOKENS} tokens, overlap {OVERLAP}, {QUESTIONS} questions")
    head = (
        f"{'chunks':>7} {'tokens, mean':>13} {'largest':>8} {f'in first {FIRST}':>11} {'by section':>10} {'seconds':>8}"
    )
    print(f"{'':<44} {head}")
    for name, cut in splitters().items():
        start = time.process_time()
        chunks = [chunk for text in documents for chunk in cut(text)]
        elapsed_s = time.process_time() - start
        sizes = [estimate_tokens(chunk) for chunk in chunks]
        with tempfile.TemporaryDirectory() as folder:
            knowledge, _ = fill(Path(folder) / "k.db", chunks)
            answered = asyncio.run(count_answers(knowledge, paragraphs, names_section=False))
            placed = asyncio.run(count_answers(knowledge, paragraphs, names_section=True))
            knowledge.close()
        row = f"{len(chunks):>7,} {statistics.mean(sizes):>13.0f} {max(sizes):>8} {answered:>11} {placed:>10}"
        print(f"{name:<44} {row} {elapsed_s:>8.2f}")


if __name__ == "__main__":
    main()
