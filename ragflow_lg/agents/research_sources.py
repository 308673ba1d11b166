"""The sources of a research: numbered once over all rounds, whatever search finds them.

A chunk keeps RAGFlow's number, which is computed from its id. If another chunk already has that number, it gets the
next free one, so that every source that a research has shown to the model can be cited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragflow_lg.agents.agent_run import result_text
from ragflow_lg.agents.agent_tool import AgentTool, Outcome
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.references import NUMBER_FIELD, Chunk, build_chunks, citation_number, hash_text, number_of

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

_FIELDS = {
    "id": ("id", "chunk_id"),
    "title": ("document_name", "docnm_kwd"),
    "text": ("content", "content_with_weight"),
}


class ResearchSources:
    """The numbers of all chunks that the searches of a research found."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        known: Mapping[str, Mapping[str, Any]] = ctx.references.get("chunks", {})
        self._ids = {int(number): to_text(chunk.get("id")) for number, chunk in known.items() if number.isdigit()}
        self._numbers = {id_: number for number, id_ in self._ids.items()}

    def add(self, outcome: Outcome, tool: AgentTool) -> list[dict[str, JsonValue]]:
        """Return the chunks of a search, numbered. A tool that returns no chunks has one, named after it."""
        chunks: Sequence[Chunk] = outcome.chunks
        text = result_text(outcome.value)
        if not chunks and not tool.returns_chunks and text.strip():
            chunks = build_chunks([(tool.title, "", text, 1.0)])
        return [self._number(chunk) for chunk in chunks if to_text(_field(chunk, "text")).strip()]

    def cite(self, outcome: Outcome, chunks: Sequence[Mapping[str, JsonValue]]) -> None:
        """Make numbered chunks citable."""
        names = {to_text(_field(chunk, "title")) for chunk in chunks}
        documents = None
        if outcome.documents is not None:
            documents = [document for document in outcome.documents if document.get("doc_name") in names]
        self._ctx.cite(chunks, documents)

    def _number(self, chunk: Chunk) -> dict[str, JsonValue]:
        id_ = to_text(_field(chunk, "id")) or hash_text(to_text(_field(chunk, "text")))
        usual = citation_number(id_)
        number = self._numbers.get(id_)
        if number is None:
            number = usual
            while self._ids.setdefault(number, id_) != id_:
                number += 1
            self._numbers[id_] = number
        numbered = {key: value for key, value in chunk.items() if key != NUMBER_FIELD} | {"id": id_}
        return numbered if number == usual else {**numbered, NUMBER_FIELD: number}


def describe_source(chunk: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a source as the trace lists it: its number, title and URL."""
    return {"number": number_of(chunk), "title": to_text(_field(chunk, "title")), "url": to_text(chunk.get("url"))}


def _field(chunk: Chunk, name: str) -> JsonValue:
    return next((chunk[key] for key in _FIELDS[name] if chunk.get(key) is not None), None)
