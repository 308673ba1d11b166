"""Jinja templates in Message and StringTransform, rendered in a sandbox in a worker process.

A reference ``{n@result}`` inside a Jinja template is a template variable. RAGFlow turns it into the token ``n_result``
and searches the rendered text for remaining tokens. Here each reference becomes a variable with the original value, so
loops and filters work on lists and maps, and the output is never searched. Source: RAGFlow's
``agent/component/message.py``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue, join_texts, to_text
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.services.workers import Workers

if TYPE_CHECKING:
    from jinja2 import nodes

MAX_SOURCE_CHARS = 100_000
MAX_OUTPUT_CHARS = 2_000_000

_NOT_NAME = re.compile(r"\W")
_POSITION = re.compile(r" at \d+$")
_PREFIX = re.compile(r"key\d+_")
_NAME = re.compile(r"key\d+_\d+_")


def has_jinja(template: Template) -> bool:
    """Return whether a text is a Jinja template, apart from its references."""
    if "{" not in template.literal_text and "}" not in template.literal_text:
        return False
    text = "".join(s if isinstance(s, str) else "x" for s in template.segments)
    tag = text.find("{%")
    return "{{" in text or "}}" in text or (tag >= 0 and "%}" in text[tag + 2 :])


def find_syntax_error(template: Template) -> str:
    """Return a Jinja template's syntax error, or ``""``."""
    from jinja2 import TemplateError

    from ragflow_lg.dsl.templates import sandbox as template_sandbox

    if len(template.source) > MAX_SOURCE_CHARS:
        return f"it is longer than {MAX_SOURCE_CHARS:,} characters"
    try:
        template_sandbox.check(parse(template))
    except (TemplateError, MemoryError, RecursionError, SyntaxError, ValueError) as error:
        names = {name: text for text, name in name_references(template).items()}
        problem = str(error.message if isinstance(error, TemplateError) else error.args[0] if error.args else "")
        problem = _POSITION.sub("", problem)  # positions refer to the generated source, not the author's
        return _NAME.sub(lambda m: names.get(m[0], m[0]), problem).rstrip(".") or "it is nested too deeply"
    return ""


async def render(
    template: Template, values: Mapping[str, JsonValue], workers: Workers, *, must_parse: bool = False
) -> str:
    """Render a template; ``values`` maps each reference's text to its value.

    A template that is invalid or fails at run time is returned as text, with its references filled in.

    Raises:
        ComponentError: if it exceeds a size or time limit, or if it ``must_parse`` and has a syntax error.
        WorkLimitError: if it is stopped from outside.
    """
    if not has_jinja(template):
        return _fill_references(template, values)
    if len(template.source) > MAX_SOURCE_CHARS:
        raise ComponentError(f"The template is longer than {MAX_SOURCE_CHARS:,} characters.")
    return await workers.run(render_jinja, template, values, must_parse)


@worker_task("The template", seconds=5.0, small_size=0)
def render_jinja(template: Template, values: Mapping[str, JsonValue], must_parse: bool = False) -> str:
    """Render a Jinja template; see `render`."""
    from jinja2 import TemplateSyntaxError

    from ragflow_lg.dsl.templates import sandbox as template_sandbox

    context = {name: values.get(text) for text, name in name_references(template).items()}
    context |= {_NOT_NAME.sub("_", text): value for text, value in values.items()}  # authors also use RAGFlow's names
    pieces: list[str] = []
    size = 0
    try:
        for piece in template_sandbox.compile_template(parse(template)).generate(context):
            size += len(piece)
            if size > MAX_OUTPUT_CHARS:
                raise ComponentError(f"The template's output exceeds {MAX_OUTPUT_CHARS:,} characters.")
            pieces.append(piece)
    except ComponentError:
        raise
    except Exception as error:  # noqa: BLE001 - the author's expressions may raise anything
        if must_parse and isinstance(error, TemplateSyntaxError):
            raise ComponentError("The Jinja template has a syntax error.") from None
        return _fill_references(template, values)
    return "".join(pieces)


def _fill_references(template: Template, values: Mapping[str, JsonValue]) -> str:
    return join_texts(s if isinstance(s, str) else to_text(values.get(s.text)) for s in template.segments)


def name_references(template: Template) -> dict[str, str]:
    """Return, for each reference, a variable name that does not occur in the template.

    In a string literal, no backslash before it makes an escape of it.
    """
    taken = set(_PREFIX.findall(template.source))
    prefix = next(prefix for number in itertools.count() if (prefix := f"key{number}_") not in taken)
    texts = dict.fromkeys(reference.text for reference in template.references)
    return {text: f"{prefix}{index}_" for index, text in enumerate(texts)}


def parse(template: Template) -> nodes.Template:
    """Return the syntax tree of a template, with a variable for each reference.

    Raises:
        TemplateError: if it has a syntax error.
    """
    from ragflow_lg.dsl.templates import sandbox as template_sandbox

    names = name_references(template)
    source = "".join(names[s.text] if isinstance(s, Reference) else s for s in template.segments)
    return template_sandbox.parse(source, frozenset(names.values()))
