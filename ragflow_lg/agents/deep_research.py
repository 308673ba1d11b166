"""Deep research: search in rounds until nothing is missing, then write one answer that cites the sources.

In each round, the model sees the question, the findings so far and the queries that were already asked, and answers
with new queries. The research ends when it asks none, or when the budget is used up. Every answer, search and summary
is a stored step. Findings and search results are only ever shown to the model as data; queries are read from its
reasoning alone. Source: the idea of RAGFlow's ``agentic_reasoning/deep_research.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ragflow_lg.agents.agent_log import agent_log_of
from ragflow_lg.agents.agent_run import AgentLoop, append_message, make_thought_sink, request_schema, result_text
from ragflow_lg.agents.agent_tool import AgentTool, Outcome
from ragflow_lg.agents.research_budget import ResearchBudget
from ragflow_lg.agents.research_queries import MAX_QUERIES, SEARCH_FUNCTION, calls_of, query_key, read_queries
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.citations import find_known_citations, strip_unknown_citations
from ragflow_lg.models.engine_prompts import describe_today, engine_prompt
from ragflow_lg.models.prompt_texts import NOTHING_RELEVANT
from ragflow_lg.models.prompts import CONTEXT_SHARE
from ragflow_lg.services.agent_metrics import usage_json
from ragflow_lg.services.chat import NO_USAGE, ChatRequest, ToolCall
from ragflow_lg.services.references import (
    NUMBER_FIELD,
    Chunk,
    build_chunks,
    citation_number,
    hash_text,
    knowledge_text,
    number_of,
)

_FIELDS = {
    "id": ("id", "chunk_id"),
    "title": ("document_name", "docnm_kwd"),
    "text": ("content", "content_with_weight"),
}


class ResearchSources:
    """The numbers of all chunks that the searches of a research found.

    A chunk keeps RAGFlow's number, which is computed from its id. If another chunk already has that number, it gets the
    next free one, so that every source that a research has shown to the model can be cited.
    """

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


MAX_SHOWN_FAILURES = 3
UNREAD_SOURCES = 3
"""How many sources of a search stand for its summary if the budget does not allow one."""
_MIN_TOKENS = 40
_OVERVIEW_CHARS = 1_000


class Finding(Struct):
    """What one query found."""

    query: str
    text: str
    """The relevant facts with citations; ``""`` if nothing relevant was found."""
    sources: Sequence[Chunk] = ()
    """The numbered chunks that the text cites."""
    problem: str = ""
    """Why sources could not be searched."""

    def view(self, text: str) -> dict[str, str]:
        """Return the finding as the model sees it, with a shorter ``text``."""
        problem = {"problem": self.problem} if self.problem else {}
        return {"query": self.query, "finding": text or "Nothing relevant was found.", **problem}


class Research(Struct):
    """A research: its budget, sources and findings."""

    run: AgentLoop
    tools: Mapping[str, AgentTool]
    budget: ResearchBudget
    numbers: ResearchSources
    findings: list[Finding] = field(default_factory=list[Finding])
    rounds: int = 0
    """The number of rounds in which something was searched."""
    end: str = ""
    """Why the research ended early; ``""`` if the model asked no more queries."""
    asked: set[str] = field(default_factory=set[str])
    has_repeated: bool = False
    """Whether the last answer asked only queries that had been asked before."""

    @property
    def sources(self) -> list[Chunk]:
        """The cited chunks of all findings, without duplicates, in the order in which they were found."""
        return [*{number_of(chunk): chunk for finding in self.findings for chunk in finding.sources}.values()]

    def findings_text(self, max_tokens: int) -> str:
        """Return the findings as JSON, each shortened if they do not all fit."""
        room = max(_MIN_TOKENS, max_tokens // max(1, len(self.findings)) - _MIN_TOKENS)
        total = sum(estimate_tokens(finding.text) for finding in self.findings)
        views = [f.view(f.text if total <= max_tokens else shorten(f.text, room)) for f in self.findings]
        return shorten(json.dumps(views, ensure_ascii=False, indent=1), max_tokens)


async def research(run: AgentLoop) -> Research:
    """Search in rounds until the model asks no more queries or the budget is used up.

    Raises:
        ComponentError: if the agent has no search tool.
    """
    tools = run.toolbox.searches
    if not tools:
        raise ComponentError(
            "The strategy deep_research needs a tool that searches: add a Retrieval or a web search to the tools.",
            node=run.ctx.node.id,
        )
    state = Research(run, tools, ResearchBudget(run.ctx, run.research), ResearchSources(run.ctx))
    number = 0
    while await _play_round(state, number):
        number += 1
    sources: list[JsonValue] = [describe_source(chunk) for chunk in state.sources]
    await _note(
        state,
        "research_finished",
        {"rounds": state.rounds, "queries": state.budget.queries, "end": state.end or "no more queries"}
        | {"sources": sources},
        f"budget round {number}",
    )
    return state


async def _play_round(state: Research, number: int) -> bool:
    """Play a round; return whether another one may follow."""
    run = state.run
    if number > run.max_rounds:
        state.end = f"All {run.max_rounds + 1} rounds have been played."
    else:
        state.end = await state.budget.find_end(f"round {number}")
    if state.end:
        return False
    queries, is_repetition = await _ask_for_queries(state, number)
    if not queries:
        is_reminded, state.has_repeated = state.has_repeated, True
        return is_repetition and not is_reminded
    state.has_repeated = False
    state.rounds += 1
    results = await _search(state, queries, number)
    for index, (query, outcomes) in enumerate(zip(queries, results, strict=True)):
        state.findings.append(await _summarize(state, query, outcomes, f"{number}.{index}"))
    return True


# Reasoning


async def _ask_for_queries(state: Research, number: int) -> tuple[list[str], bool]:
    """Return the new queries of a round, and whether the model only repeated earlier ones."""
    run, position = state.run, f"research {number}"
    sink = make_thought_sink(run)
    answer = await run.ask(_build_request(state, number), position, sink, is_kept=True)
    text = strip_thinking(answer.text)
    calls = calls_of(answer)
    proposed = read_queries(text, calls)
    new = [query for query in proposed if query_key(query) not in state.asked]
    room = state.budget.queries_left
    queries = new[: MAX_QUERIES if room is None else min(MAX_QUERIES, room)]
    state.asked.update(map(query_key, queries))
    state.budget.queries += len(queries)
    if run.stream is not None:
        called = "".join(f"\nSearch: {query}" for query in queries) if calls else ""
        await run.stream.write_thought(f"{called}\n")
    if number == 0:
        sources: list[JsonValue] = [tool.title for tool in state.tools.values()]
        await _note(state, "research_plan", {"plan": text.strip(), "sources": sources}, position)
    known: list[JsonValue] = [query for query in proposed if query not in new]
    asked: list[JsonValue] = [*queries]
    await _note(state, "research_queries", {"round": number + 1, "queries": asked, "already_asked": known}, position)
    return queries, bool(proposed) and not new


def _build_request(state: Research, number: int) -> ChatRequest:
    run = state.run
    size = run.model.context_tokens
    system = _system(state)
    rounds_left, queries_left = run.max_rounds + 1 - number, state.budget.queries_left
    budget = f"Rounds left: {rounds_left}." + ("" if queries_left is None else f" Queries left: {queries_left}.")
    question = shorten(_task(run), size // 4)
    room = int(size * CONTEXT_SHARE) - estimate_tokens(f"{system}{question}") - 4 * _MIN_TOKENS
    findings = state.findings_text(max(room, size // 8)) if state.findings else "[]"
    content = engine_prompt(run.ctx, "research_request", question=question, findings=findings, budget=budget)
    if state.has_repeated:
        content += f"\n\n{engine_prompt(run.ctx, 'research_repetition')}"
    tools = (SEARCH_FUNCTION,) if run.model.has_tools else ()
    return replace(
        run.request, system=system, messages=({"role": "user", "content": content},), tools=tools, schema=None, stop=()
    )


def _task(run: AgentLoop) -> str:
    """Return the question, after the conversation that it belongs to."""
    *earlier, last = [message for message in run.request.messages if isinstance(message.get("content"), str)]
    if not earlier:
        return last["content"]
    conversation = "\n".join(f"{message['role']}: {message['content']}" for message in earlier)
    return f"{last['content']}\n\nEarlier messages:\n{shorten(conversation, run.model.context_tokens // 8)}"


def _system(state: Research) -> str:
    run = state.run
    tools = state.tools.values()
    sources = "\n".join(f"- {tool.title}: {' '.join(tool.description.split())}"[:_OVERVIEW_CHARS] for tool in tools)
    parts = [engine_prompt(run.ctx, "research_step"), f"Sources:\n{sources}", f"Today: {describe_today(run.ctx)}"]
    if run.request.system.strip():
        parts.append(
            f"Instructions for the final answer:\n{shorten(run.request.system, run.model.context_tokens // 8)}"
        )
    return "\n\n".join(parts)


# Searching


async def _search(state: Research, queries: Sequence[str], number: int) -> list[list[tuple[AgentTool, Outcome]]]:
    """Search all sources for all queries at once; return the outcomes of each query."""
    pairs = [(query, name, tool) for query in queries for name, tool in state.tools.items()]
    calls = [
        ToolCall(f"{number}.{index}", name, json.dumps({tool.search_argument: query}, ensure_ascii=False))
        for index, (query, name, tool) in enumerate(pairs)
    ]
    outcomes = await state.run.call(calls, str(number), is_search=True)
    found = [(tool, outcome) for (_, _, tool), outcome in zip(pairs, outcomes, strict=True)]
    size = len(state.tools)
    return [found[at : at + size] for at in range(0, len(found), size)]


# Summarizing


async def _summarize(
    state: Research, query: str, outcomes: Sequence[tuple[AgentTool, Outcome]], position: str
) -> Finding:
    """Return what a query found, as the model summarizes it."""
    run = state.run
    failures = [f"{tool.title}: {to_text(outcome.value)[:300]}" for tool, outcome in outcomes if outcome.is_error]
    finding = Finding(query, "", problem=" ".join(failures[:MAX_SHOWN_FAILURES]))
    found = [(outcome, state.numbers.add(outcome, tool)) for tool, outcome in outcomes if not outcome.is_error]
    chunks = [*{number_of(chunk): chunk for _, some in found for chunk in some}.values()]
    step = f"summary {position}"
    if chunks and await state.budget.find_end(step, asks=False):
        finding.sources = chunks[:UNREAD_SOURCES]
        finding.text = "Not summarized: " + " ".join(f"[ID:{number_of(chunk)}]" for chunk in finding.sources)
        step = f"budget {step}"
    elif chunks:
        finding.text = await _ask_for_summary(run, query, chunks, step)
        by_number = {str(number_of(chunk)): chunk for chunk in chunks}
        cited = find_known_citations(finding.text, {"chunks": dict.fromkeys(by_number)})
        finding.sources = [by_number[number] for number in cited] or (chunks if finding.text else [])
    numbers = {number_of(chunk) for chunk in finding.sources}
    for outcome, some in found:
        state.numbers.cite(outcome, [chunk for chunk in some if number_of(chunk) in numbers])
    described: list[JsonValue] = [describe_source(chunk) for chunk in finding.sources]
    details: dict[str, JsonValue] = {**finding.view(finding.text), "sources": described}
    await _note(state, "research_finding", details, step)
    if run.stream is not None and not finding.text:
        await run.stream.write_thought(f"{query}: nothing relevant was found. {finding.problem}".rstrip() + "\n")
    return finding


async def _ask_for_summary(run: AgentLoop, query: str, chunks: Sequence[Chunk], position: str) -> str:
    size = run.model.context_tokens
    question = shorten(_task(run), size // 8)
    system = f"{engine_prompt(run.ctx, 'research_summary')}\n\nQuestion:\n{question}\n\nSearch query: {query}"
    room = max(size // 4, int(size * CONTEXT_SHARE) - estimate_tokens(system))
    passages = shorten(knowledge_text(chunks, room), room)
    request = replace(
        run.request, system=system, messages=({"role": "user", "content": passages},), tools=(), schema=None, stop=()
    )
    sink = make_thought_sink(run)
    answer = strip_thinking((await run.ask(request, position, sink, is_kept=True)).text).strip()
    if run.stream is not None:
        await run.stream.write_thought("\n")
    known = {str(number_of(chunk)) for chunk in chunks}
    text = strip_unknown_citations(shorten(answer, size // 8), known.__contains__)
    is_nothing = text.casefold().strip(" .*\"'`").startswith(NOTHING_RELEVANT.casefold()) and len(text) < 200
    return "" if is_nothing else text


async def _note(state: Research, title: str, result: Mapping[str, JsonValue], position: str) -> None:
    """Record a note in the trace. ``position`` is the step that it follows, which tells whether it is replayed."""
    ctx, log = state.run.ctx, agent_log_of(state.run.ctx)
    details: dict[str, Any] = {
        "title": title,
        "result": log.redact(result),
        "seconds": 0.0,
        "usage": usage_json(NO_USAGE),
    }
    await log.emit("note", details, is_replayed=position in ctx.replayed_steps)


NOTHING = "(none)"


async def deep_research(run: AgentLoop) -> str:
    """Search until the model asks no more queries or the budget is used up; return the answer."""
    return await _write_report(run, await research(run))


async def _write_report(run: AgentLoop, state: Research) -> str:
    """Ask for the final answer and stream it. Findings may fill half of the remaining context, passages the rest."""
    fixed = "".join(message["content"] for message in run.request.messages if isinstance(message["content"], str))
    prompt = engine_prompt(run.ctx, "research_report", findings="", passages="", reason=state.end)
    used = estimate_tokens(f"{run.request.system}{run.guidelines}{fixed}{prompt}")
    room = max(run.model.context_tokens // 8, int(run.model.context_tokens * CONTEXT_SHARE) - used)
    findings = state.findings_text(room // 2) if state.findings else "[]"
    left = room - estimate_tokens(findings)
    passages = shorten(knowledge_text(state.sources, left), left) if state.sources else NOTHING
    prompt = engine_prompt(run.ctx, "research_report", findings=findings, passages=passages, reason=state.end)
    messages = append_message(run.request.messages, "user", prompt)
    request = request_schema(run, replace(run.request, messages=tuple(messages)))
    return await run.ask_for_answer(run.with_guidelines(request), "report")
