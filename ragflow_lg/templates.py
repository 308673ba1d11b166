"""Jinja templates of Message and StringTransform, in a sandbox with limits.

A reference ``{n@result}`` inside a Jinja template is a variable of the template: RAGFlow turns it into the
token ``n_result`` and searches the rendered text for tokens left over. Here each reference becomes a
variable with the value as it is, so loops and filters work on lists and maps, and the output is never
searched. Source: RAGFlow's ``agent/component/message.py``.
"""

from __future__ import annotations

import asyncio
import ctypes
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import Reference, Template
from ragflow_lg.values import JsonValue, to_text

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["has_jinja", "render", "syntax_error"]

MAX_SOURCE_CHARS = 100_000
MAX_OUTPUT_CHARS = 2_000_000
MAX_RANGE = 10_000
MAX_INTEGER_BITS = 512
MAX_SECONDS = 2.0

_JINJA = re.compile(r"\{\{|\}\}|\{%.*?%\}", re.DOTALL)
_NOT_NAME = re.compile(r"\W")


def has_jinja(template: Template) -> bool:
    """Tell whether a text is a Jinja template once its references are taken out."""
    return any(isinstance(s, str) and _JINJA.search(s) for s in template.segments) or bool(
        _JINJA.search("".join(s if isinstance(s, str) else "x" for s in template.segments))
    )


def syntax_error(template: Template) -> str:
    """Give what is wrong with a Jinja template, or ``""``."""
    from jinja2 import TemplateError

    if len(template.source) > MAX_SOURCE_CHARS:
        return f"it is longer than {MAX_SOURCE_CHARS:,} characters"
    try:
        _environment().parse(_source(template))
    except (TemplateError, RecursionError) as error:
        return str(error) or type(error).__name__
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
    return await _in_thread(lambda: _rendered(template, values))


def _rendered(template: Template, values: Mapping[str, JsonValue]) -> str:
    from jinja2 import TemplateError

    context = {_token(name): values.get(name) for name in {r.text for r in template.references}}
    pieces: list[str] = []
    size = 0
    try:
        compiled = _compiled(_source(template))
        for piece in compiled.generate(**context):
            size += len(piece)
            if size > MAX_OUTPUT_CHARS:
                raise ComponentError(f"The template makes a text of more than {MAX_OUTPUT_CHARS:,} characters.")
            pieces.append(piece)
    except ComponentError:
        raise
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return _filled(template, values)
    return "".join(pieces)


def _filled(template: Template, values: Mapping[str, JsonValue]) -> str:
    return "".join(s if isinstance(s, str) else to_text(values.get(s.text)) for s in template.segments)


def _token(name: str) -> str:
    return "ref_" + _NOT_NAME.sub("_", name) if name[:1].isdigit() else _NOT_NAME.sub("_", name)


def _source(template: Template) -> str:
    """Write the template with a variable for each reference: bare inside a Jinja tag, as an expression outside."""
    text, is_inside = "", False
    for segment in template.segments:
        if isinstance(segment, Reference):
            text += f" {_token(segment.text)} " if is_inside else "{{ " + _token(segment.text) + " }}"
        else:
            text += segment
            is_inside = _ends_inside(segment, is_inside)
    return text


def _ends_inside(piece: str, is_inside: bool) -> bool:
    """Whether a piece of template text ends within ``{% … %}`` or ``{{ … }}``."""
    opened = max(piece.rfind("{%"), piece.rfind("{{"))
    closed = max(piece.rfind("%}"), piece.rfind("}}"))
    return is_inside if opened == closed == -1 else opened > closed


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    """Make the sandbox. Values print as everywhere else; texts, numbers and ranges are bounded."""
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
    from jinja2.visitor import NodeTransformer

    class JoinAsAdd(NodeTransformer):
        """Reads ``a ~ b`` as an addition of texts, which the sandbox can check."""

        def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802 - Jinja's name
            parts = [nodes.Filter(self.visit(part), "string", [], [], None, None) for part in node.nodes]
            joined: nodes.Expr = parts[0]
            for part in parts[1:]:
                joined = nodes.Add(joined, part)
            return joined

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "%", "+"})

        def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
            return JoinAsAdd().visit(super()._parse(source, name, filename))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operands(operator, left, right, SecurityError)
            return super().call_binop(context, operator, left, right)

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            safe = super().is_safe_attribute(obj, attr, value)
            return safe and (attr in _METHODS or not isinstance(obj, str | list | dict | tuple | int | float))

    def bounded_range(*bounds: int) -> range:
        numbers = range(*bounds)
        if len(numbers) > MAX_RANGE:
            raise SecurityError(f"range() gives at most {MAX_RANGE:,} numbers")
        return numbers

    def replace(text: Any, old: str, new: str) -> str:
        text = _printed(text)
        if len(text) + text.count(old) * len(new) > MAX_OUTPUT_CHARS:
            raise SecurityError("texts this long are not made")
        return text.replace(old, new)

    def join(values: Iterable[Any], separator: str = "") -> str:
        texts = [_printed(value) for value in values]
        if sum(map(len, texts)) + len(texts) * len(separator) > MAX_OUTPUT_CHARS:
            raise SecurityError("texts this long are not made")
        return separator.join(texts)

    environment = Sandbox(autoescape=False, finalize=_printed, optimized=False)
    environment.globals = {"range": bounded_range, "namespace": environment.globals["namespace"]}
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters.update(replace=replace, join=join, tojson=to_text, string=_printed)
    return environment


_METHODS = frozenset(
    """
    capitalize count endswith find get index items keys lower lstrip rstrip split splitlines startswith strip title
    upper values
    """.split()
)
"""Methods of texts, lists and maps that cannot make anything larger than what they are called on."""

_FILTERS = tuple(
    """
    abs attr capitalize count d default dictsort e escape first float groupby int items last length list lower map max
    min reject rejectattr reverse round select selectattr sort sum title trim unique upper wordcount
    """.split()
)
"""Jinja's own filters that are offered; ``replace``, ``join``, ``string`` and ``tojson`` are bounded ones."""


def _printed(value: Any) -> str:
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        return str(value)
    return to_text(list(value)) if isinstance(value, range) else to_text(value)


@lru_cache(maxsize=256)
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


def _check_operands(operator: str, left: Any, right: Any, refuse: Callable[[str], Exception]) -> None:
    """Refuse what could grow without bound: huge texts, huge numbers, formatting."""
    if operator == "%" and isinstance(left, str):
        raise refuse("text formatting is not offered; use ~ to join texts")
    if operator == "**":
        if not all(isinstance(n, int | float) and abs(n) <= 1000 for n in (left, right)):
            raise refuse("numbers this large are not computed")
    elif isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > MAX_INTEGER_BITS:
            raise refuse("numbers this large are not computed")
    else:
        sizes = [len(v) for v in (left, right) if isinstance(v, str | list | tuple)]
        times = max((v for v in (left, right) if isinstance(v, int)), default=1) if operator == "*" else 1
        if sum(sizes) * times > MAX_OUTPUT_CHARS:
            raise refuse("texts and lists this long are not made")


async def _in_thread(work: Callable[[], str]) -> str:
    """Run a rendering beside the event loop and stop it at its deadline.

    Endless loops are stopped by an exception thrown into their thread, between two of its steps; the limits
    on numbers, texts and ranges keep every single step short.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()

    def settle(result: str, error: Exception | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(result)

    def run() -> None:
        text, error = "", None
        try:
            text = work()
        except _OverrunError:
            error = ComponentError(f"The template did not finish within {MAX_SECONDS:g} s and was stopped.")
        except Exception as failure:  # noqa: BLE001 - handed over to the waiting task
            error = failure
        loop.call_soon_threadsafe(settle, text, error)

    thread = threading.Thread(target=run, name="template", daemon=True)
    thread.start()
    timer = loop.call_later(MAX_SECONDS, _stop, thread)
    try:
        return await done
    finally:
        timer.cancel()
        if thread.is_alive() and not done.done():
            _stop(thread)


def _stop(thread: threading.Thread) -> None:
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_OverrunError))
