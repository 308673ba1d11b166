"""The arguments of a tool call: parsing, repair, and what a model reads about those that cannot be read.

Models write almost-JSON, and servers cut it off. What could be read is what goes back into the conversation, because
clients and servers refuse a conversation with anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn, cast

from ragflow_lg.base.errors import ComponentError, ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.services.chat import ToolCall
from ragflow_lg.services.workers import Workers

MAX_NAME_CHARS = 64
MAX_REPAIRED_CALLS = 128
MAX_REPAIRED_CHARS = 50_000
MAX_REPAIRED_BRACKETS = 200
"""Text with more brackets is not repaired: json_repair takes seconds to process thousands of them."""
_MAX_SHOWN_CHARS = 200
_MAX_WRAPPERS = 3
"""How often an object may be wrapped in text or in a list of one entry."""
_FENCE = re.compile(r"\A\s*`{3,}\w{0,16}\s*|\s*`{3,}\s*\Z")
_AFTER = re.compile(r"(?<=\})\s*(?://[^\n]*|</\w{1,16}>)\Z")
"""A comment or a closing tag after the arguments."""
_UNCLEAR = re.compile(r"""\\(?!["'\\/bfnrt]|u[0-9a-fA-F]{4})|["']\s*\+\s*["']""")
"""A backslash that JSON does not know, such as those of a path, and texts that are added up."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_WORD = re.compile(r"""-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)|\w+|[^\w\s"'“”‘’,:;{}\[\]\\]""")
_EMPTY_TEXT = re.compile(r"""(?<!["'])(?:""|''|“”)(?!["'])""")
_BETWEEN = re.compile(r"[\s,;]*")
_NO_ARGUMENTS = ("null", "None")
_NOT_UTF8 = re.compile(r"\\u[dD][89a-fA-F]|NaN|Infinity")
_CUT = "{"
"""The arguments of a call that was cut off before they began."""


def truncate_name(name: str) -> str:
    """Return the name of a tool truncated to 64 characters: models invent names of any length."""
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"


def read_arguments(text: str) -> JsonValue:
    """Parse arguments as JSON; return ``{}`` for blank text and null.

    Text that is not JSON, or is too deeply nested or too large, is returned unchanged.
    """
    if not text.strip() or text.strip() in _NO_ARGUMENTS:
        return {}
    with suppress(ForeignJsonError, ComponentError):
        return to_json(parse_foreign_json(text))
    return text


def describe_unreadable(name: str, text: str) -> str:
    """Return what the model reads about arguments that are not an object."""
    value = read_arguments(text)
    needed = f"Tool arguments for {name} must be a JSON object, "
    shown = text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"
    if isinstance(value, str) and _is_unclosed(text):
        return f"{needed}but they were cut off, so the call was not made. Repeat it with complete arguments: {shown}"
    if isinstance(value, str) and len(_objects(text)) > 1:
        return f"{needed}but they are several, so the call was not made. Make one call for each: {shown}"
    if isinstance(value, str) and text.lstrip().startswith("{"):
        return f"{needed}but they are not valid JSON, so the call was not made. Repeat it with valid JSON: {shown}"
    return f"{needed}got {type(value).__name__}: {shown}"


def conversation_calls(calls: Sequence[ToolCall]) -> list[dict[str, str]]:
    """Return calls as they go back into the conversation, where arguments that cannot be read are an empty object.

    The result of such a call shows them to the model.
    """
    return [
        {**call._asdict(), "arguments": call.arguments if isinstance(read_arguments(call.arguments), dict) else "{}"}
        for call in calls
    ]


async def repair_calls(calls: Sequence[ToolCall], workers: Workers, *, is_cut: bool = False) -> tuple[ToolCall, ...]:
    """Return calls with unique ids, names of bounded length, and small mistakes in their arguments repaired.

    If the answer ``is_cut`` at its limit, its last call is not repaired: a missing end would become a wrong value.
    """
    repaired: list[ToolCall] = []
    ids: set[str] = set()
    for index, call in enumerate(calls, 1):
        text = call.arguments
        if is_cut and index == len(calls):
            text = _mark_cut(text)
        elif index <= MAX_REPAIRED_CALLS:
            text = await _repair(text, workers)
        id_ = call.id if call.id and call.id not in ids else f"{call.id or 'call'}_{index}"
        ids.add(id_)
        repaired.append(ToolCall(id_, truncate_name(call.name), text))
    return tuple(repaired)


def _mark_cut(text: str) -> str:
    """Return the last arguments of an answer that was cut off; an empty object has perhaps not begun."""
    return _CUT if read_arguments(text) == {} else text


async def _repair(text: str, workers: Workers) -> str:
    """Return arguments as the JSON of an object, or unchanged if that is impossible."""
    value = _unwrap(read_arguments(text))
    if isinstance(value, dict):
        return text if _is_plain_object(text) else json.dumps(value, ensure_ascii=False)
    is_short = len(text) <= MAX_REPAIRED_CHARS and text.count("{") + text.count("[") <= MAX_REPAIRED_BRACKETS
    if not is_short or not isinstance(value, str):
        return text
    if objects := _objects(text):
        value = objects[0] if all(other == objects[0] for other in objects) else text
    elif _is_unclosed(text) or not _FENCE.sub("", text).rstrip().endswith(("}", "]")):
        return text
    else:
        value = _unwrap(await workers.run(repair_json, text))
        value = value if _keeps_all(text, value) else text
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else text


@worker_task("Repairing the arguments", small_size=1_000)
def repair_json(text: str) -> JsonValue:
    """Parse text that is almost JSON; return it unchanged if that is impossible."""
    from json_repair import loads

    with suppress(ValueError, RecursionError, ComponentError):
        return to_json(loads(text))
    return text


def _unwrap(value: JsonValue) -> JsonValue:
    """Return the object that a model has wrapped in text or in a list, or the value itself."""
    inner: JsonValue = value
    for _ in range(_MAX_WRAPPERS):
        if isinstance(inner, list) and len(inner) == 1:
            inner = inner[0]
        elif isinstance(inner, str) and inner.lstrip().startswith("{"):
            inner = read_arguments(inner)
    return inner if isinstance(inner, dict) else value


def _is_plain_object(text: str) -> bool:
    """Return whether every server can read this object: NaN is no JSON, and a lone surrogate cannot be sent."""
    return text.lstrip().startswith("{") and not _NOT_UTF8.search(text)


def _is_unclosed(text: str) -> bool:
    """Return whether a closing bracket is missing: more may have followed, even after a whole value."""
    return text.count("{") + text.count("[") > text.count("}") + text.count("]")


def _keeps_all(text: str, value: JsonValue) -> bool:
    """Return whether a repaired value has every word of the text, in its order, and nothing else."""
    text = _FENCE.sub("", text)
    plain = text.replace("\\\\", "")
    texts = list(_leaves(value))
    has_added = texts.count("") > len(_EMPTY_TEXT.findall(text))
    return (
        not _UNCLEAR.search(plain) and not has_added and _words(_ESCAPE.sub(_unescape, text)) == _words(" ".join(texts))
    )


def _leaves(value: JsonValue) -> Iterator[str]:
    """Yield the keys and values of all levels as text."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield key
            yield from _leaves(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _leaves(entry)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def _words(text: str) -> list[str]:
    """Return words, numbers and signs, without what only separates them; Python's None is null."""
    words = (
        word.casefold() for word in _WORD.findall(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    )
    return [_plain_number(word) if word[-1:].isdigit() else "null" if word == "none" else word for word in words]


def _plain_number(word: str) -> str:
    """Return a number that has a fraction or exponent as JSON would write it, or the word."""
    with suppress(ValueError):
        return str(float(word)) if "." in word or "e" in word else word
    return word


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else " " if code in "bfnrt" else code


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the objects that a text consists of, one after the other; none if there is anything else in it."""
    try:
        return list(_decode_objects(_AFTER.sub("", _FENCE.sub("", text).strip())))
    except (ValueError, RecursionError):
        return []


def _decode_objects(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(parse_constant=_refuse_constant), 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        if not isinstance(value, dict):
            raise ValueError
        yield cast("dict[str, Any]", value)
        following = _BETWEEN.match(text, at)
        at = following.end() if following else at


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
