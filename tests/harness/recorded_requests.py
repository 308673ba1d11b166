"""Requests of a browser as data: recorded with the shapes of their answers, and replayed with other ids."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_NAMED = re.compile(r"<id \d+>")


class RecordedRequest(NamedTuple):
    """A request. ``ids`` names the ids that its answer contains first, by their place; ``shape`` describes it."""

    step: str
    method: str
    path: str
    body: Any
    code: int
    ids: dict[str, str]
    shape: Any


def read_requests(file: Path) -> list[RecordedRequest]:
    """Read a recording, one request per line."""
    return [RecordedRequest(**json.loads(line)) for line in file.read_text("utf-8").splitlines()]


def parse_answer(text: str) -> Any:
    """Return JSON, or the first frame of each event in a stream."""
    if not text.startswith("data:"):
        return json.loads(text)
    parts = (part.removeprefix("data:").strip() for part in text.split("\n\n"))
    frames = [json.loads(part) for part in parts if part.startswith("{")]
    return {frame.get("event", "frame"): frame for frame in reversed(frames)}


def iterate_texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value with their places."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, part in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from iterate_texts(part, f"{place}/{key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from iterate_texts(part, f"{place}/{number}")


def describe_shape(value: Any) -> Any:
    """Return a value's shape: objects with the shapes of their values, lists with the shape of their first entry."""
    if isinstance(value, dict):
        return {key: describe_shape(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [describe_shape(value[0])] if value else []
    if value is None:
        return None
    return "flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def find_difference(shape: Any, value: Any, place: str = "") -> str:
    """Return where a value lacks something that the shape has, or ``""``. More is allowed, and so is null."""
    if shape is None or value is None:
        return ""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{place}: not an object"
        missing = [key for key in shape if key not in value]  # pyright: ignore[reportUnknownVariableType]
        if missing:
            return f"{place}: without {missing}"
        parts = (find_difference(part, value[key], f"{place}/{key}") for key, part in shape.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return next((part for part in parts if part), "")
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place}: not a list"
        return find_difference(shape[0], value[0], f"{place}/0") if shape and value else ""
    return "" if describe_shape(value) == shape else f"{place}: not a {shape}"


class Ids:
    """The names of ids, so that a recording does not depend on them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add(self, id_: str, name: str) -> None:
        """Name an id."""
        self._names[id_] = name

    def learn(self, names: dict[str, str], answer: Any) -> None:
        """Learn the ids that have these names in the answer of a replayed request."""
        texts = dict(iterate_texts(answer))
        self._names |= {texts[place]: name for place, name in names.items() if place in texts}

    def show(self, value: Any) -> Any:
        """Return a JSON value with ids in place of names."""
        ids = {name: id_ for id_, name in self._names.items()}
        return json.loads(_NAMED.sub(lambda match: ids.get(match[0], match[0]), json.dumps(value)))
