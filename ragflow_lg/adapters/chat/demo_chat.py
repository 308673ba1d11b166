"""A deterministic chat model that needs no key and no network.

In this order: if the prompt lists categories, it returns the one that shares the most words with the last message; if
the prompt contains a JSON schema, it returns an example object; the engine's own prompts get what they ask for; tools
that take a question are called once; if the messages contain knowledge chunks, it quotes and cites the best sentence;
otherwise it says that its node would now answer. Without the title of a node, it says that it is a demo model.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterator, Mapping
from itertools import islice

from ragflow_lg.adapters.knowledge.words import extract_question_words, split_words
from ragflow_lg.base.example_values import example_value
from ragflow_lg.models.classification import parse_categories
from ragflow_lg.models.prompt_texts import COMPLETE_TASK, NOTHING_RELEVANT, PROMPTS
from ragflow_lg.models.structured_answer import extract_schema
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest, ToolCall, ToolSchema, Usage

_PIECE_CHARS = 12
_MAX_ECHO_CHARS = 500
_MAX_QUESTION_CHARS = 120
_QUESTIONS = ("query", "q", "question", "keyword", "keywords", "search_query", "user_prompt", "sql")
"""Names of the arguments of tools that take a question."""
_INTRODUCTION = "This is the demo model, not a real one."
_MARKS = ("would now ", "would stand here", "(demo data)")
"""What shows that a text was written by this model, or is a sample."""
_LABEL = re.compile(r"(the )?(user|question|query|task|topic)[\w'’‘ ]{0,20}?( is |:|：)\s*(?=\S)", re.IGNORECASE)
"""What prompts say before a question."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")

_CHUNK = re.compile(r"^ID: (\d{1,9})\n((?:├── [^\n]*\n)*)└── Content:\n(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""A chunk in a prompt, up to the first blank line: nothing marks where the last chunk ends and the prompt continues."""
_TITLE = re.compile(r"├── Title: (.*)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n(?=[^\n]{1,40}: )")
_ROW = re.compile(r"^([^;:\n]{1,200}: [^;\n]*; [^\n]*: [^\n]*)$", re.MULTILINE)
"""A row of a table, as readers of files write it."""
_LINE = "\n"
_MAX_QUOTE_CHARS = 400
_MAX_CHUNKS = 50


class DemoChat:
    """A `ragflow_lg.services.chat.ChatModel` that uses no real model."""

    name = "demo"
    context_tokens = 128_000
    has_vision = True
    has_tools = True
    has_schemas = False

    def __init__(self, title: str = "", *, calls_tools: bool = False) -> None:
        """Initialize with the title of the node that asks, if it is known.

        Only in a demo, where tools send nothing, it ``calls_tools``: it may also answer because no key was found.
        """
        self._title = " ".join(title.replace("*", "").split())
        self._calls_tools = calls_tools

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the whole answer."""
        if self._calls_tools and (call := _find_call(request)):
            return ChatAnswer("", (call,), usage=Usage(calls=1))
        return ChatAnswer(_answer(request, self._title), usage=Usage(calls=1))

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Yield the answer in pieces of a few characters."""
        text, calls, usage, _ = await self.complete(request)
        for start in range(0, len(text), _PIECE_CHARS):
            yield ChatDelta(text[start : start + _PIECE_CHARS])
        yield ChatDelta("", calls=calls, usage=usage)


def quote_answer(question: str, *prompts: str, title: str = "") -> str:
    """Quote the sentence that shares the most words with the question, with its chunk number.

    It comes from the first of the prompts' chunks that shares any, because the best chunk comes first; a row of a table
    is quoted whole. The chunks may follow the question in ``question`` itself. Return ``""`` if no prompt contains
    chunks.
    """
    keywords = set(extract_question_words(question.partition("\nID: ")[0]))
    best, most = "", -1
    chunks = [chunk for prompt in prompts for chunk in islice(_CHUNK.finditer(prompt), _MAX_CHUNKS)]
    for number, head, content in (chunk.groups() for chunk in chunks):
        document = _TITLE.search(head)
        source = f" ({document[1].strip()})" if document else ""
        if most > 0:
            break
        first, _, rest = content.partition("\n")
        for sentence in _split_sentences(_cut_sample(rest if " > " in first and rest else content)):
            score = len(keywords & set(split_words(sentence)))
            if sentence.strip() and score > most:
                quote = " ".join(sentence.split())[:_MAX_QUOTE_CHARS].rstrip(" .。")
                best, most = f"“{quote}”{source} [ID:{number}].", score
    return f"{_introduce(title)} finds: {best}" if best else ""


def _split_sentences(text: str) -> list[str]:
    parts = _ROW.split(text)  # a row follows each text
    return [one for at, part in enumerate(parts) for one in ([part] if at % 2 else _SENTENCE.split(part))]


def _cut_sample(content: str) -> str:
    """Return a sample without what follows it in a prompt."""
    text, mark, _ = content.partition(_MARKS[1])
    return f"{text}{mark}"


def _answer(request: ChatRequest, title: str) -> str:
    question = next((m["content"] for m in reversed(request.messages) if m["role"] == "user"), "")
    if parse_categories(request.system):
        return _choose_category(request.system, question)
    if (schema := extract_schema(request.system)) is not None:
        return json.dumps(example_value(schema, "answer"), ensure_ascii=False)
    if (reply := _reply_to_engine(request.system, question)) is not None:
        return reply
    results = [str(m["content"]) for m in request.messages if m["role"] == "tool"]
    quote = quote_answer(question, request.system, question, *results, title=title)
    if quote and not (title and _is_own(quote)):
        return quote
    count = len(request.images)
    images = f" ({count} image{'' if count == 1 else 's'} attached)" if count else ""
    if not title:
        echo = question if len(question) <= _MAX_ECHO_CHARS else question[: _MAX_ECHO_CHARS - 1] + "…"
        return f"{_INTRODUCTION} You said: {echo}{images}"
    line = _question_line(question)
    source = f" from the sample passages{quote[quote.rindex(' [') :].rstrip('.')}" if quote else ""
    source = source or (" with what its tool returned" if results else "")
    return f"*{title}* would now {f'answer “{line}”' if line else 'write its answer'}{images}{source}."


def _introduce(title: str) -> str:
    return f"*{title}*" if title else f"{_INTRODUCTION} It"


def _question_line(text: str) -> str:
    """Return the first line of a text that is not a heading or was written by this model, shortened."""
    lines = (line.strip(' #*>-`\t"“”') for line in text.partition("\nID: ")[0].splitlines())
    fitting = [line for line in lines if line and not line.endswith((":", "：")) and not _is_own(line)]
    line = _LABEL.sub("", fitting[0], count=1) if fitting else ""
    return line if len(line) <= _MAX_QUESTION_CHARS else line[: _MAX_QUESTION_CHARS - 1] + "…"


def _is_own(line: str) -> bool:
    return any(mark in line for mark in _MARKS)


def _is_prompt(system: str, name: str) -> bool:
    prompt = PROMPTS[name]
    heads = (text.partition("{")[0] for text in (prompt.text, prompt.ragflow))
    return any(head.strip() and system.startswith(head) for head in heads)


def _reply_to_engine(system: str, question: str) -> str | None:
    """Return the reply to one of the engine's prompts that asks for no answer, or None."""
    if _is_prompt(system, "research_step"):
        is_first = "\n[]\n" in question
        search = f"Reasoning: one search.\nSearch: {question.partition(_LINE)[2].partition(_LINE)[0]}"
        return search if is_first else "Done"
    if _is_prompt(system, "research_summary"):
        return quote_answer(system.rpartition(_LINE)[2], question) or NOTHING_RELEVANT
    if _is_prompt(system, "standalone_question"):
        return system.rpartition("USER: ")[2].strip().strip('"')
    if _is_prompt(system, "plan_generation"):
        return json.dumps([{"name": COMPLETE_TASK, "arguments": {}}])
    if _is_prompt(system, "metadata_filter"):
        return '{"logic": "and", "conditions": []}'
    if _is_prompt(system, "translation"):
        return json.dumps([question.rpartition(_LINE)[0]], ensure_ascii=False)
    return question if _is_prompt(system, "add_citations") else None


def _find_call(request: ChatRequest) -> ToolCall | None:
    """Return a call of the tool that takes a question and shares most words with it, in the first round only."""
    last = request.messages[-1] if request.messages else {"role": ""}
    if last["role"] != "user" or any(m["role"] == "tool" for m in request.messages):
        return None
    if _is_prompt(request.system, "standalone_question"):
        return None
    asked = _question_line(last["content"]) or "demo"
    found = [(tool, name) for tool in request.tools if (name := _question_argument(tool))]
    if not found:
        return None
    tool, name = max(found, key=lambda each: len(_words(asked) & _words(f"{each[0].name} {each[0].description}")))
    required = [each for each in tool.parameters.get("required") or () if each != name]
    arguments = {each: example_value(tool.parameters["properties"].get(each), each) for each in required}
    arguments[name] = "SELECT 1" if name == "sql" else asked
    return ToolCall("demo", tool.name, json.dumps(arguments, ensure_ascii=False))


def _question_argument(tool: ToolSchema) -> str:
    properties = tool.parameters.get("properties")
    return next((name for name in _QUESTIONS if isinstance(properties, Mapping) and name in properties), "")


def _choose_category(system: str, conversation: str) -> str:
    """Return the category that shares the most words with the last user message.

    If none shares any, it is the last one at first, and another one for each later message.
    """
    question = _words(conversation.rpartition("USER: ")[2])
    categories = parse_categories(system)
    shared = [len(question & _words(" ".join((c.name, c.description, *c.examples)))) for c in categories]
    if max(shared):
        return categories[shared.index(max(shared))].name
    turn = zlib.crc32(conversation.encode("utf-8", "replace")) if "ASSISTANT: " in conversation else -1
    return categories[turn % len(categories)].name


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
