"""Services whose answers follow rules: the files of ``tests/fixtures/tool_stubs``, which name their sources."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

FOLDER = Path(__file__).parents[2] / "fixtures" / "tool_stubs"
PLACE = re.compile(r"\{([a-z]+(?:\.[\w-]+)*)\}")


class Rule(Struct):
    """An answer to calls whose parts, such as ``path`` or ``json.query``, match all of ``when`` and ``unless``."""

    body: Any
    when: dict[str, str] = {}
    """Patterns that match; a part that a call does not have is ``""``."""
    unless: dict[str, str] = {}
    """Patterns of which one does not match."""
    status: int = 200
    headers: dict[str, str] = {}
    kind: str = "application/json"
    count: int | str = 0
    """The number of rows, or the part of the call that has it."""
    row: dict[str, Any] = {}
    """What ``{rows}`` stands for in the body, so many times. ``{n}`` is its number, other braces name parts."""
    first: dict[str, Any] = {}
    """What the first row has instead."""

    def fits(self, call: Call) -> bool:
        """Return whether this is the answer to a call."""
        fitting = [re.fullmatch(pattern, _text(call, part), re.DOTALL) for part, pattern in self.when.items()]
        others = [re.fullmatch(pattern, _text(call, part), re.DOTALL) for part, pattern in self.unless.items()]
        return all(fitting) and (not others or not all(others))

    def answer(self, call: Call) -> Answer:
        """Return the answer to a call."""
        count = self.count if isinstance(self.count, int) else int(_text(call, self.count))
        rows = [_fill(self.row | (self.first if n == 0 else {}), call, n, []) for n in range(count)]
        return Answer(_fill(self.body, call, 0, rows), self.status, self.headers, self.kind)


class Service(Struct):
    """A service; the first rule that fits a call has its answer."""

    busy: Rule
    rules: list[Rule]
    KEY: str = field(default="", name="key")

    def handle(self, call: Call) -> Answer:
        """Return the answer to a call."""
        return next(rule for rule in self.rules if rule.fits(call)).answer(call)

    def stub(self) -> ServiceStub:
        """Return the app."""
        return ServiceStub(self.handle, Answer(self.busy.body, self.busy.status, self.busy.headers, self.busy.kind))


@cache
def service(name: str) -> Any:
    """Return a service: one with rules, or a module of this package with the same names."""
    file = FOLDER / f"{name}.yaml"
    if file.exists():
        return msgspec.yaml.decode(file.read_bytes(), type=Service)
    return import_module(f"{__package__}.{name}")


def _text(call: Call, part: str) -> str:
    name, *keys = part.split(".")
    value: Any = getattr(call, name)
    for key in keys:
        value = value[int(key)] if key.isdigit() else value.get(key, "")
    return str(value)


def _fill(value: Any, call: Call, number: int, rows: list[Any]) -> Any:
    """Return a part of a body with what its braces stand for."""
    if isinstance(value, dict):
        return {key: _fill(inner, call, number, rows) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_fill(inner, call, number, rows) for inner in cast("list[Any]", value)]
    if value == "{rows}":
        return rows
    texts = {"n": str(number)}
    return PLACE.sub(lambda m: texts.get(m[1]) or _text(call, m[1]), value) if isinstance(value, str) else value
