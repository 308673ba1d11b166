"""What the hostile server answers: models by their names, pages by their paths."""

import gzip
import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import repeat
from typing import Any

MODELS: dict[str, str] = {
    "endless": "text without end",
    "large-piece": "a piece of 30 MB",
    "empty-pieces": "empty pieces without end",
    "thinking": "thoughts without end",
    "think-tags": "tags of thinking without end",
    "endless-line": "a line without end",
    "deep-piece": "a piece nested a million deep",
    "deep-text": "text that is JSON nested 100,000 deep",
    "many-choices": "100,000 choices in a piece",
    "usage": "impossible token counts",
    "slow": "a piece each second, without end",
    "hang": "no answer",
    "failure": "an error with an endless text",
    "gzip": "2 GB in 2 MB",
    "garbage": "data that is no stream",
}
"""The models that answer an LLM, with what they do."""
PAGES: dict[str, str] = {
    "endless": "a body without end",
    "gzip": "2 GB in 2 MB",
    "drip": "a byte each second",
    "headers": "headers without end",
    "redirect": "redirects without end",
    "hang": "no response",
    "html": "HTML nested 200,000 deep",
    "deep": "JSON nested 2,000,000 deep",
    "numbers": "JSON with 2,000,000 numbers",
}
MB = 1024 * 1024
TOOL = "work_0"
SLOW = ("slow", "drip")
"""What waits a second after each piece."""


def _delta(text: str = "", **delta: Any) -> str:
    choice = {"index": 0, "delta": {"content": text, **delta} if text else delta, "finish_reason": None}
    return f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"


def _calls(count: int, arguments: str = "{}", name: str = TOOL) -> str:
    calls = [
        {"index": n, "id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n in range(count)
    ]
    return _delta(tool_calls=calls) + _end("tool_calls")


def _end(reason: str = "stop") -> str:
    choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reason}
    return (
        f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\ndata: [DONE]\n\n"
    )


def _chain(*parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        yield from part


def stream(model: str, has_result: bool) -> Iterable[str]:
    """Return the frames of a model's answer; ``has_result`` if a tool has answered it already."""
    if has_result and model != "call-again":
        return [_delta("done"), _end()]
    deep = "[" * 100_000 + "]" * 100_000
    answers: dict[str, Any] = {
        "endless": lambda: repeat(_delta("word " * 200)),
        "large-piece": lambda: [_delta("word " * (6 * MB)), _end()],
        "empty-pieces": lambda: repeat(_delta() * 50),
        "thinking": lambda: repeat(_delta(reasoning_content="hm " * 300)),
        "think-tags": lambda: repeat(_delta("<think></think><think>" * 40)),
        "endless-line": lambda: _chain(["data: "], repeat("x" * 60_000)),
        "deep-piece": lambda: ["data: " + "[" * 1_000_000 + "]" * 1_000_000 + "\n\n", _end()],
        "deep-text": lambda: [_delta(deep), _end()],
        "many-choices": lambda: [_delta("x")[:-3].replace("[{", "[{}," * 100_000 + "{", 1) + "}\n\n", _end()],
        "usage": lambda: [_delta("x"), 'data: {"choices": [], "usage": {"prompt_tokens": 1e300}}\n\n', _end()],
        "slow": lambda: repeat(_delta("word ")),
        "garbage": lambda: repeat("\0\ud7ff{]\n" * 5000),
        "many-calls": lambda: [_calls(5000)],
        "one-call": lambda: [_calls(1)],
        "call-again": lambda: [_calls(1)],
        "deep-call": lambda: [_calls(1, '{"a":' * 100_000 + "1" + "}" * 100_000)],
        "large-call": lambda: [_calls(1, json.dumps({"a": "x" * (8 * MB)}))],
        "long-name": lambda: [_calls(1, "{}", "n" * MB)],
    }
    return answers.get(model, lambda: [_delta("ok"), _end()])()


def whole(model: str) -> Iterable[str]:
    """Return an answer that is not streamed."""
    head, tail = '{"choices": [{"index": 0, "message": {"role": "assistant", "content": "', '"}}]}'
    if model == "endless":
        return _chain([head], repeat("word " * 10_000))
    text = "[" * 100_000 + "]" * 100_000 if model == "deep-text" else "ok"
    return [head, text, tail]


def page(name: str) -> tuple[str, Iterable[str]] | None:
    """Return the content type and the body of a page, or None if there is no such page."""
    pages: dict[str, Any] = {
        "endless": ("text/plain", lambda: repeat("word " * 10_000)),
        "drip": ("text/plain", lambda: repeat("x")),
        "html": ("text/html", lambda: ["<div>" * 200_000]),
        "deep": ("application/json", lambda: ["[" * 2_000_000 + "]" * 2_000_000]),
        "numbers": ("application/json", lambda: ["[" + "1," * 2_000_000 + "1]"]),
        "short": ("text/plain", lambda: ["ok"]),
    }
    kind, body = pages.get(name, ("", None))
    return (kind, body()) if body else None


@cache
def bomb() -> bytes:
    """Return gzip data that unpacks to 2 GB."""
    return gzip.compress(bytes(64 * MB)) * 32
