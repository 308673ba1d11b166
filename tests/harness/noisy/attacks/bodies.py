"""Request bodies that are large, deep or odd."""

import json
from collections.abc import Callable
from typing import Any

from tests.harness.noisy.attack import CHAT, Attack, by_body
from tests.harness.noisy.plain_canvases import ECHO

MB = 1024 * 1024
NATIVE = "/native/v1/agents/{agent}/runs"
EMBEDDED = "/api/v1/agentbots/{agent}/completions"
OPENAI = "/v1/chat/completions"


def _turn(**fields: Any) -> Callable[[str], bytes]:
    return lambda agent: json.dumps({"agent_id": agent, "query": "go", "stream": True, **fields}).encode()


def _inputs(text: Callable[[], str]) -> Callable[[str], bytes]:
    """Return a turn whose input ``a`` is JSON text."""
    return lambda agent: f'{{"agent_id": "{agent}", "query": "go", "inputs": {{"a": {text()}}}}}'.encode()


def _native(text: Callable[[], str]) -> Callable[[str], bytes]:
    return lambda agent: f'{{"query": "x", "inputs": {{"a": {text()}}}}}'.encode()


def _openai(messages: Callable[[], Any]) -> Callable[[str], bytes]:
    return lambda agent: json.dumps({"model": agent, "messages": messages(), "stream": True}).encode()


def _query(value: Callable[[], Any]) -> Callable[[str], bytes]:
    return lambda agent: _turn(query=value())(agent)


def _deep(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + "1" + closing * depth


def _many(text: str, size: int) -> str:
    """Return a JSON list of about ``size`` bytes."""
    return "[" + ",".join([text] * (size // (len(text) + 1))) + "]"


def _words_of(word: str, size: int) -> str:
    return word * (size // len(word))


ATTACKS: list[Attack] = [
    by_body("list-2mb", "an input with a list of 2 MB", CHAT, _inputs(lambda: _many("1", 2 * MB)), ECHO),
    by_body("list-16mb", "an input with a list of 15 MB", CHAT, _inputs(lambda: _many("1", 15 * MB)), ECHO),
    by_body(
        "list-embedded",
        "the key of an embedded page, and a list of 15 MB",
        EMBEDDED,
        _inputs(lambda: _many("1", 15 * MB)),
        ECHO,
        key="beta",
    ),
    by_body(
        "list-native", "the native API, and a list of 3.9 MB", NATIVE, _native(lambda: _many("1", 4_000_000)), ECHO
    ),
    by_body("empty-lists", "an input with millions of empty lists", CHAT, _inputs(lambda: _many("[]", 15 * MB)), ECHO),
    by_body(
        "empty-objects", "an input with millions of empty objects", CHAT, _inputs(lambda: _many("{}", 15 * MB)), ECHO
    ),
    by_body("query-list", "a query that is a large object", CHAT, _query(lambda: {"a": [1] * 1_000_000}), ECHO),
    by_body(
        "template-arguments",
        "`chat_template_kwargs` with a large list",
        CHAT,
        _turn(chat_template_kwargs={"a": [1] * 1_000_000}),
        ECHO,
    ),
    by_body(
        "many-keys",
        "an object with 200,000 keys",
        CHAT,
        _inputs(lambda: json.dumps({f"k{n}": n for n in range(200_000)})),
        ECHO,
    ),
    by_body(
        "same-key",
        "an object with one key 200,000 times",
        CHAT,
        _inputs(lambda: "{" + ",".join(['"k":[1]'] * 200_000) + "}"),
        ECHO,
    ),
    by_body("deep-lists", "lists nested 5,000,000 deep", CHAT, _inputs(lambda: _deep(5_000_000)), ECHO),
    by_body(
        "deep-objects", "objects nested 1,000,000 deep", CHAT, _inputs(lambda: _deep(1_000_000, '{"a":', "}")), ECHO
    ),
    by_body(
        "deep-native",
        "the native API, and lists nested 1,900,000 deep",
        NATIVE,
        _native(lambda: _deep(1_900_000)),
        ECHO,
    ),
    by_body(
        "deep-60", "lists nested 60 deep, a thousand of them", CHAT, _inputs(lambda: _many(_deep(60), 120_000)), ECHO
    ),
    by_body("long-query", "a query of 15 MB", CHAT, _query(lambda: _words_of("word ", 15 * MB)), ECHO),
    by_body("long-query-4mb", "a query of 4 MB", CHAT, _query(lambda: _words_of("word ", 4 * MB)), ECHO),
    by_body("long-number", "a number of 15,000,000 digits", CHAT, _inputs(lambda: "9" * 15_000_000), ECHO),
    by_body("many-numbers", "numbers of 4,000 digits", CHAT, _inputs(lambda: _many("7" * 4000, 10 * MB)), ECHO),
    by_body("huge-floats", "numbers beyond all floats", CHAT, _inputs(lambda: _many("1e400", 2 * MB)), ECHO),
    by_body(
        "combining-marks",
        "a letter with a million accents",
        CHAT,
        _inputs(lambda: '"e' + "\u0301" * 1_000_000 + '"'),
        ECHO,
    ),
    by_body(
        "surrogates", "half a million lone surrogates", CHAT, _inputs(lambda: '"' + "\\ud800" * 500_000 + '"'), ECHO
    ),
    by_body(
        "wide-characters",
        "3 MB of emoji",
        CHAT,
        _inputs(lambda: json.dumps("\U0001f600" * MB, ensure_ascii=False)),
        ECHO,
    ),
    by_body("controls", "a million NUL characters", CHAT, _query(lambda: "\0" * 1_000_000), ECHO),
    by_body("think-tags", "200,000 opening tags of thinking", CHAT, _query(lambda: "<think>" * 200_000), ECHO),
    by_body("braces", "a million opening braces", CHAT, _query(lambda: "{" * 1_000_000), ECHO),
    by_body("reference-text", "200,000 references in the query", CHAT, _query(lambda: "{sys.query}" * 200_000), ECHO),
    by_body(
        "many-files",
        "20,000 files in a turn",
        CHAT,
        _turn(files=[{"id": "0" * 32, "name": "a.txt", "created_by": "t"}] * 20_000),
        ECHO,
    ),
    by_body("odd-files", "files that are large objects", CHAT, _turn(files=[{"id": [1] * 500_000}]), ECHO),
    by_body(
        "openai-messages",
        "100,000 messages for an OpenAI client",
        OPENAI,
        _openai(lambda: [{"role": "user", "content": f"message {n}"} for n in range(100_000)]),
        ECHO,
    ),
    by_body(
        "openai-parts",
        "a message with 200,000 parts",
        OPENAI,
        _openai(lambda: [{"role": "user", "content": [{"type": "text", "text": "x"}] * 200_000}]),
        ECHO,
    ),
    by_body(
        "form-fields",
        "a form with a million fields",
        CHAT,
        lambda agent: b"a=1&" * 1_000_000,
        ECHO,
        content_type="application/x-www-form-urlencoded",
    ),
    by_body(
        "multipart-parts",
        "a multipart body with 100,000 parts",
        "/api/v1/documents/upload",
        lambda agent: (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n' * 100_000 + b"--b--\r\n"
        ),
        content_type="multipart/form-data; boundary=b",
    ),
    by_body(
        "multipart-head",
        "a multipart body with a header of 10 MB",
        "/api/v1/documents/upload",
        lambda agent: b"--b\r\nX-A: " + b"a" * (10 * MB) + b"\r\n\r\n--b--\r\n",
        content_type="multipart/form-data; boundary=b",
    ),
    by_body(
        "no-key-native",
        "15 MB for the native API without a key",
        "/native/v1/agents/x/runs",
        _native(lambda: _many("[]", 15 * MB)),
        key="",
    ),
    by_body("no-key", "15 MB for a completion without a key", CHAT, _inputs(lambda: _many("[]", 15 * MB)), key=""),
    by_body(
        "no-key-check",
        "15 MB to be checked without a key",
        "/native/v1/check",
        lambda agent: _many("{}", 15 * MB).encode(),
        key="",
    ),
]
