"""Compare ways to answer questions of several hops: ``python -m tests.campaigns research``.

A made-up corpus is searched by one Retrieval before the model, by an Agent with function calling, and by deep research.
The model is scripted, but knows no answer: it reads the sentences that it is shown, follows the question from one fact
to the next, and asks for the first fact that it has not read.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.adapters.knowledge.embedded_knowledge import EmbeddedKnowledge
from ragflow_lg.models.prompt_texts import NOTHING_RELEVANT, PROMPTS
from ragflow_lg.services.chat import ONE_CALL, ChatAnswer, ChatDelta, ChatRequest, ToolCall
from tests.fakes.canvas import node
from tests.fakes.embedded import OneEmbedder, fill
from tests.fakes.regions import play_run, runner_of
from tests.fakes.services import fake_services

FOLDER = Path(__file__).parents[1] / "fixtures" / "research"
RETRIEVAL = {"dataset_ids": ["atlas"], "top_n": 4, "similarity_threshold": 0.1, "keywords_similarity_weight": 0.7}
UNKNOWN = "I do not know."

_NAME = r"[A-Z]\w*(?: [A-Z]\w*)*"
_VALUE = rf"{_NAME}(?: [a-z]+)?|\d+ kilometres"
_CITATIONS = r"(?:\.)?((?: ?\[ID:\d+\])*)"
_FORWARD = re.compile(rf"The ([a-z ]+) of ({_NAME}) is ({_VALUE}){_CITATIONS}")
_BACKWARD = re.compile(rf"({_VALUE}) is the ([a-z ]+) of ({_NAME}){_CITATIONS}")
_CHAIN = re.compile(r"the ([a-z ]+(?: of the [a-z ]+)*) of ([A-Z]\w*(?: [A-Z]\w*)*)")
_QUESTION = re.compile(r"What (?:is|are) [^?]+\?")
_ID = re.compile(r"^ID: (\d+)$", re.MULTILINE)
_CITATION = re.compile(r"\[ID:(\d+)\]")


class Fact(NamedTuple):
    """The sentence "The ``relation`` of ``entity`` is ``value``", and the number of the passage that it stands in."""

    relation: str
    entity: str
    value: str
    number: str


def read_facts(text: str) -> Iterator[Fact]:
    """Yield the facts in passages with ``ID: n`` lines, and in sentences followed by ``[ID:n]``."""
    parts = _ID.split(text)
    for number, part in zip(["", *parts[1::2]], parts[::2], strict=True):
        for relation, entity, value, cited in _FORWARD.findall(part):
            yield Fact(relation, entity, value, (_CITATION.findall(cited) or [number])[0])
        for value, relation, entity, cited in _BACKWARD.findall(part):
            yield Fact(relation, entity, value, (_CITATION.findall(cited) or [number])[0])


class Reading(NamedTuple):
    """How far a question can be followed: the answers, the facts that lead there, and the first missing fact."""

    answers: list[str]
    used: list[Fact]
    missing: list[str]


def follow(question: str, facts: Sequence[Fact]) -> Reading:
    """Follow every part of a question from the innermost entity outwards."""
    known = {(fact.relation, fact.entity): fact for fact in facts}
    answers, used, missing = list[str](), list[Fact](), list[str]()
    for relations, entity in _CHAIN.findall(question):
        for relation in reversed(relations.split(" of the ")):
            fact = known.get((relation, entity))
            if fact is None:
                missing.append(f"{relation} of {entity}")
                break
            used.append(fact)
            entity = fact.value
        else:
            answers.append(entity)
    return Reading(answers, used, missing)


class ReadingModel:
    """A model that follows questions through the facts that it is shown."""

    has_vision = False
    has_schemas = False

    def __init__(self, *, has_tools: bool = True, context_tokens: int = 16_384) -> None:
        self.has_tools = has_tools
        self.context_tokens = context_tokens
        self.calls = 0

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.calls += 1
        question = (_QUESTION.findall(_whole(request)) or [""])[-1]
        if request.system.startswith(PROMPTS["research_summary"].text):
            return ChatAnswer(_summarize(question, request.messages[-1]["content"]), usage=ONE_CALL)
        facts = list(read_facts(_whole(request)))
        reading = follow(question, facts)
        if request.system.startswith(PROMPTS["research_step"].text):
            lines = [f"Search: {query}" for query in reading.missing]
            return ChatAnswer(
                "\n".join(["Reasoning: one fact after the other.", *lines]) if lines else "Done", usage=ONE_CALL
            )
        if request.tools and reading.missing:
            name = request.tools[0].name
            calls = [
                ToolCall(f"c{self.calls}{n}", name, json.dumps({"query": q})) for n, q in enumerate(reading.missing)
            ]
            return ChatAnswer("", tuple(calls), ONE_CALL)
        return ChatAnswer(_write_answer(reading), usage=ONE_CALL)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        answer = await self.complete(request)
        yield ChatDelta(answer.text)
        yield ChatDelta("", calls=answer.calls, usage=answer.usage)


def _whole(request: ChatRequest) -> str:
    texts = [str(message.get("content") or "") for message in request.messages]
    return "\n".join([request.system, *texts]).replace("\\n", "\n")


def _summarize(question: str, passages: str) -> str:
    """Repeat the sentences that have a relation of the question, with their numbers."""
    relations = {relation for chain, _ in _CHAIN.findall(question) for relation in chain.split(" of the ")}
    facts = [fact for fact in read_facts(passages) if fact.relation in relations]
    return " ".join(f"The {f.relation} of {f.entity} is {f.value}. [ID:{f.number}]" for f in facts) or NOTHING_RELEVANT


def _write_answer(reading: Reading) -> str:
    if reading.missing:
        return UNKNOWN
    return " ".join(f"The {f.relation} of {f.entity} is {f.value} [ID:{f.number}]." for f in reading.used)


class _Reader(NamedTuple):
    """The same model for every ``llm_id``."""

    chat: ReadingModel

    def model(self, llm_id: str) -> ReadingModel:
        return self.chat


class Score(NamedTuple):
    """The outcome of one question."""

    is_answered: bool
    is_cited: bool
    """Whether the answer cites the passages that contain the answers."""
    rounds: int
    """The number of times that something was searched for."""
    calls: int


def canvas_of(way: str) -> dict[str, Any]:
    """Return the canvas for a way to answer, without Begin."""
    out = {"out": node("Message", {"content": ["{a@content}"]})}
    prompts = [{"role": "user", "content": "{sys.query}"}]
    if way == "retrieval":
        system = "Answer from these passages.\n{r@formalized_content}"
        find = node("Retrieval", {**RETRIEVAL, "query": "{sys.query}"}, ["a"])
        return {"r": find, "a": node("LLM", {"sys_prompt": system, "prompts": prompts}, ["out"]), **out}
    tools = [{"component_name": "Retrieval", "name": "Atlas", "params": RETRIEVAL}]
    strategy = "function_calling" if way == "agent" else "deep_research"
    params = {"llm_id": "m@Test", "prompts": prompts, "tools": tools, "strategy": strategy, "max_rounds": 5}
    return {"a": node("Agent", params, ["out"]), **out}


async def answer(way: str, question: dict[str, Any], knowledge: EmbeddedKnowledge, **options: Any) -> Score:
    """Ask a question and score the answer. ``options`` are those of the model."""
    model = ReadingModel(**options)
    services = fake_services(models=_Reader(model), knowledge=knowledge)
    runner = runner_of(canvas_of(way), services=services, saver=InMemorySaver())
    run = runner.start("s", {"query": question["question"]})
    text, _ = await play_run(run)
    state = await runner.state("s")
    chunks: Any = state["turn"].get("references", {}).get("chunks", {})
    text = text.rpartition("</think>")[2]
    cited = {number: str(chunk["content"]) for number, chunk in chunks.items() if f"[ID:{number}]" in text}
    return Score(
        all(value in text for value in question["answers"]),
        all(any(value in content for content in cited.values()) for value in question["answers"]),
        _count_searches(state["outputs"], way),
        model.calls,
    )


def _count_searches(outputs: dict[str, Any], way: str) -> int:
    return 1 if way == "retrieval" else len(outputs["a"].get("use_tools") or ())


def open_corpus(path: Path) -> EmbeddedKnowledge:
    """Return a knowledge base with the corpus, a paragraph a document."""
    knowledge = EmbeddedKnowledge(path, OneEmbedder())
    paragraphs = (FOLDER / "corpus.txt").read_text().strip().split("\n\n")
    fill(knowledge, "atlas", {f"page {n}.md": [text] for n, text in enumerate(paragraphs)})
    return knowledge


def load_questions() -> list[dict[str, Any]]:
    """Return the questions: their text, number of hops and answers."""
    return json.loads((FOLDER / "questions.json").read_text())


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "Retrieval, then LLM": ("retrieval", {}),
    "Agent, function_calling": ("agent", {}),
    "Agent, deep_research": ("deep_research", {}),
    "Agent, deep_research, model without tool calls": ("deep_research", {"has_tools": False}),
}


async def main() -> None:
    questions = load_questions()
    with tempfile.TemporaryDirectory() as folder:
        knowledge = open_corpus(Path(folder) / "atlas.db")
        sys.stdout.write("| way | answered | cited | searches | model calls |\n| --- | --- | --- | --- | --- |\n")
        for title, (way, options) in WAYS.items():
            scores = [await answer(way, question, knowledge, **options) for question in questions]
            count = len(scores)
            sys.stdout.write(
                f"| {title} | {sum(s.is_answered for s in scores)} of {count} | {sum(s.is_cited for s in scores)} "
                f"| {sum(s.rounds for s in scores) / count:.1f} | {sum(s.calls for s in scores) / count:.1f} |\n"
            )


if __name__ == "__main__":
    asyncio.run(main())
