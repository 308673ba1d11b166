"""Jinja templates of Message and StringTransform, in a sandbox with limits.

A reference ``{n@result}`` inside a Jinja template is a variable of the template: RAGFlow turns it into the
token ``n_result`` and searches the rendered text for tokens left over. Here each reference becomes a
variable with the value as it is, so loops and filters work on lists and maps, and the output is never
searched. Source: RAGFlow's ``agent/component/message.py``.

What stops a runaway: every round of a loop, call, filter, test, comparison and printed value is charged to
the `_Budget` of its rendering, which ends it when time or size runs out. Each single step between two
charges is small, because nothing is made that is larger than the budget.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import Reference, Template
from ragflow_lg.values import JsonValue, join_texts, to_text

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["has_jinja", "render", "syntax_error"]

MAX_SOURCE_CHARS = 100_000
MAX_OUTPUT_CHARS = 2_000_000
MAX_SIZE = 20_000_000
"""Most characters and entries that one rendering may make, those it throws away included."""
MAX_RANGE = 10_000
MAX_SECONDS = 2.0

_NOT_NAME = re.compile(r"\W")


def has_jinja(template: Template) -> bool:
    """Tell whether a text is a Jinja template once its references are taken out."""
    text = "".join(s if isinstance(s, str) else "x" for s in template.segments)
    tag = text.find("{%")
    return "{{" in text or "}}" in text or (tag >= 0 and "%}" in text[tag + 2 :])


def syntax_error(template: Template) -> str:
    """Give what is wrong with a Jinja template, or ``""``."""
    from jinja2 import TemplateError

    if len(template.source) > MAX_SOURCE_CHARS:
        return f"it is longer than {MAX_SOURCE_CHARS:,} characters"
    try:
        _environment().parse(_source(template))
    except (TemplateError, RecursionError) as error:
        return str(error).rstrip(".")
    return ""


async def render(template: Template, values: Mapping[str, JsonValue]) -> str:
    """Render a template; ``values`` holds the value of each reference by its text.

    A template that cannot be read or fails while it runs is shown as it is, references filled in.

    Raises:
        ComponentError: if it goes over a limit of size or time.
    """
    if not has_jinja(template):
        return _filled(template, values)
    if len(template.source) > MAX_SOURCE_CHARS:
        raise ComponentError(f"The template is longer than {MAX_SOURCE_CHARS:,} characters.")
    return await asyncio.to_thread(_rendered, template, values)


def _rendered(template: Template, values: Mapping[str, JsonValue]) -> str:
    from jinja2 import TemplateError

    context = {name: values.get(text) for text, name in _names(template).items()}
    context |= {_token(text): values.get(text) for text in values}
    _budget.set(_Budget())
    pieces: list[str] = []
    size = 0
    try:
        for piece in _compiled(_source(template)).generate(context):
            size += len(piece)
            if size > MAX_OUTPUT_CHARS:
                raise ComponentError(f"The template makes a text of more than {MAX_OUTPUT_CHARS:,} characters.")
            pieces.append(piece)
    except (
        TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        SyntaxError,
        TypeError,
        ValueError,
        RecursionError,
    ):
        return _filled(template, values)
    return "".join(pieces)


def _filled(template: Template, values: Mapping[str, JsonValue]) -> str:
    return join_texts(s if isinstance(s, str) else to_text(values.get(s.text)) for s in template.segments)


# The template's source


def _token(text: str) -> str:
    """Give RAGFlow's name of the variable for a reference, which authors may use by itself."""
    return _NOT_NAME.sub("_", text)


def _names(template: Template) -> dict[str, str]:
    """Give the name of the variable that stands where a reference stands; unlike tokens, no two are alike."""
    texts = dict.fromkeys(reference.text for reference in template.references)
    return {text: f"_{index}_{_token(text)}" for index, text in enumerate(texts)}


def _source(template: Template) -> str:
    """Write the template with a variable for each reference: bare inside a Jinja tag, as an expression outside."""
    names = _names(template)
    pieces: list[str] = []
    is_inside = False
    for segment in template.segments:
        if isinstance(segment, Reference):
            name = names[segment.text]
            pieces.append(f" {name} " if is_inside else "{{ " + name + " }}")
        else:
            pieces.append(segment)
            is_inside = _ends_inside(segment, is_inside)
    return "".join(pieces)


def _ends_inside(piece: str, is_inside: bool) -> bool:
    """Whether a piece of template text ends within ``{% … %}`` or ``{{ … }}``."""
    opened = max(piece.rfind("{%"), piece.rfind("{{"))
    closed = max(piece.rfind("%}"), piece.rfind("}}"))
    return is_inside if opened == closed == -1 else opened > closed


@functools.lru_cache(maxsize=64)
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


# The limits


class _Budget:
    """What one rendering may still make, and how long it may go on."""

    def __init__(self) -> None:
        self._left = MAX_SIZE
        self._deadline = time.monotonic() + MAX_SECONDS

    def charge(self, value: Any) -> None:
        """Take the size of a value off: characters and entries, all that it holds counted as often as it holds it."""
        waiting = [value]
        while waiting:
            found = waiting.pop()
            self._left -= 1
            if isinstance(found, str):
                self._left -= len(found)
            elif isinstance(found, list | tuple):
                waiting.extend(cast("list[Any]", found))
            elif isinstance(found, dict):
                for key, entry in cast("dict[Any, Any]", found).items():
                    waiting += (key, entry)
            if self._left < len(waiting):
                raise ComponentError(f"The template makes more than {MAX_SIZE:,} characters and entries on its way.")
        if time.monotonic() > self._deadline:
            raise ComponentError(f"The template did not finish within {MAX_SECONDS:g} s and was stopped.")


_budget: ContextVar[_Budget] = ContextVar("template_budget")


def _charged(value: Any) -> Any:
    _budget.get().charge(value)
    return value


def _charging(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)  # keeps the marks by which Jinja knows what to hand over
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _charged(function(*args, **kwargs))

    return wrapper


_METHODS = frozenset(
    (
        *("capitalize", "count", "endswith", "find", "get", "index", "items", "keys", "lower", "lstrip", "rstrip"),
        *("split", "splitlines", "startswith", "strip", "title", "upper", "values"),
    )
)
"""Methods of texts, lists and maps that make nothing larger than what they are called on."""

_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "int"),
    *("items", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "sum", "title", "trim", "unique", "upper", "wordcount"),
)
"""Jinja's own filters that are offered; ``join``, ``replace``, ``round``, ``string`` and ``tojson`` are ours."""


@functools.lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    """Make the sandbox. Values print as everywhere else."""
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
    from jinja2.utils import Namespace
    from jinja2.visitor import NodeTransformer

    class Charging(NodeTransformer):
        """Puts a charge on what makes or compares values, and on each round of a loop and each run of a macro."""

        def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
            """``a ~ b`` becomes an addition of texts, which the sandbox checks."""
            parts = [nodes.Filter(self.visit(part), "string", [], [], None, None) for part in node.nodes]
            return functools.reduce(nodes.Add, parts[1:], parts[0])

        def visit_Compare(self, node: nodes.Expr) -> nodes.Expr:
            self.generic_visit(node)
            return nodes.Filter(node, "charged", [], [], None, None)

        visit_List = visit_Dict = visit_Compare

        def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
            return self.visit_Compare(node) if node.ctx == "load" else node

        def visit_For(self, node: nodes.For | nodes.Macro) -> nodes.Node:
            self.generic_visit(node)
            charge = nodes.Filter(nodes.Const(None), "charged", [], [], None, None)
            node.body = [nodes.ExprStmt(charge), *node.body]
            return node

        visit_Macro = visit_CallBlock = visit_For

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "%", "+"})

        def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
            return Charging().visit(super()._parse(source, name, filename))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            problem = _operand_problem(operator, left, right)
            if problem:
                raise SecurityError(problem)
            return _charged(super().call_binop(context, operator, left, right))

        def getitem(self, obj: Any, argument: Any) -> Any:
            found = super().getitem(obj, argument)
            return _charged(found) if isinstance(argument, slice) else found

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            is_value = isinstance(obj, str | list | dict | tuple | int | float)
            return super().is_safe_attribute(obj, attr, value) and (attr in _METHODS or not is_value)

        def call(self, *args: Any, **kwargs: Any) -> Any:
            return _charged(super().call(*args, **kwargs))

        @staticmethod
        def concat(pieces: Iterable[str]) -> str:
            texts = list(pieces)
            _charged(texts)
            return "".join(texts)

    def bounded_range(*bounds: int) -> range:
        numbers = range(*bounds)
        if len(numbers) > MAX_RANGE:
            raise SecurityError(f"range() gives at most {MAX_RANGE:,} numbers")
        return numbers

    environment = Sandbox(autoescape=False, finalize=_printed, optimized=False)
    environment.globals = {"range": bounded_range, "namespace": Namespace}
    offered = {name: environment.filters[name] for name in _FILTERS} | _OWN_FILTERS
    environment.filters = {name: _charging(function) for name, function in offered.items()}
    environment.tests = {name: _charging(function) for name, function in environment.tests.items()}
    return environment


def _printed(value: Any) -> str:
    """Write a value as everywhere else."""
    from jinja2 import Undefined

    _charged(value)
    if isinstance(value, Undefined):
        return str(value)
    return to_text(list(value)) if isinstance(value, range) else to_text(value)


def _replaced(text: Any, old: str, new: str) -> str:
    text = _printed(text)
    if len(text) + text.count(old) * len(new) > MAX_OUTPUT_CHARS:
        raise ValueError("texts this long are not made")
    return text.replace(old, new)


def _joined(values: Iterable[Any], separator: str = "") -> str:
    texts = [_printed(value) for value in values]
    if len(texts) * len(separator) > MAX_OUTPUT_CHARS:
        raise ValueError("texts this long are not made")
    return separator.join(texts)


def _rounded(value: float, precision: int = 0) -> float:
    if abs(precision) > 20:
        raise ValueError("numbers are rounded to at most 20 digits")
    return round(value, precision)


_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "charged": lambda value: value,
    "join": _joined,
    "replace": _replaced,
    "round": _rounded,
    "string": _printed,
    "tojson": _printed,
}


def _operand_problem(operator: str, left: Any, right: Any) -> str:
    """Give why an operation could grow without bound, or ``""``: huge texts, huge numbers, formatting."""
    operands = (left, right)
    if operator == "%":
        return "text formatting is not offered; use ~ to join texts" if isinstance(left, str) else ""
    if operator == "**":
        is_small = all(isinstance(n, int | float) and abs(n) <= 1000 for n in operands)
        return "" if is_small else "numbers this large are not computed"
    if all(isinstance(n, int) for n in operands):
        is_small = all(abs(n) < 2**256 for n in operands)
        return "" if is_small else "numbers this large are not computed"
    length = sum(len(v) for v in operands if isinstance(v, str | list | tuple))
    times = max((n for n in operands if isinstance(n, int)), default=1) if operator == "*" else 1
    return "texts and lists this long are not made" if length * times > MAX_OUTPUT_CHARS else ""
