"""Where in a JSON value a cursor stands, judged only by the text before it, which may be invalid."""

from __future__ import annotations

import re
from typing import NamedTuple

from ragflow_lg.server.devtools.language_server.json_strings import JsonString, read_string

_TOKEN = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*+(?P<end>"?)|[{}\[\],:]|[^\s{}\[\],:"]+')
MAX_DEPTH = 100


class JsonCursor(NamedTuple):
    """A place in a JSON text."""

    path: tuple[str, ...]
    """The keys and indexes of the value at the cursor."""
    typed: JsonString | None
    """The text before the cursor in the string around it; None if the cursor is not in a string."""
    is_key: bool = False
    """Whether that string is a key."""


class _Level:
    """An open object or list."""

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.name = "" if is_object else "0"
        self.expects_key = is_object

    def next_entry(self) -> None:
        """Go on after a comma."""
        self.expects_key = self.is_object
        self.name = "" if self.is_object else str(int(self.name) + 1)


def find_cursor(text: str, offset: int) -> JsonCursor | None:
    """Return the place of the cursor, or None if the text before it is nested too deeply."""
    stack: list[_Level] = []
    for match in _TOKEN.finditer(text, 0, offset):
        token = match[0]
        if token in ("{", "["):
            stack.append(_Level(token == "{"))
            if len(stack) > MAX_DEPTH:
                return None
        elif token in ("}", "]"):
            if stack:
                stack.pop()
        elif token == "," and stack:
            stack[-1].next_entry()
        elif token == ":" and stack:
            stack[-1].expects_key = False
        elif token[0] == '"':
            is_key = bool(stack) and stack[-1].expects_key
            string = read_string(text, match.start() + 1, match.end("end") - len(match["end"]))
            if not match["end"] and match.end() == offset:
                path = tuple(level.name for level in (stack[:-1] if is_key else stack))
                return JsonCursor(path, string, is_key)
            if is_key:
                stack[-1].name = string.text
    return JsonCursor(tuple(level.name for level in stack), None)
