"""Jinja templates of Message and StringTransform, in a sandbox with limits.

A reference ``{n@result}`` inside a Jinja template is a variable of the template: RAGFlow turns it into the
token ``n_result`` and searches the rendered text for tokens left over. Here each reference becomes a
variable with the value as it is, so loops and filters work on lists and maps, and the output is never
searched. Source: RAGFlow's ``agent/component/message.py``.

A rendering runs beside the event loop and stops itself: see `ragflow_lg.template_sandbox`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import Reference, Template
from ragflow_lg.values import JsonValue, join_texts, to_text

__all__ = ["has_jinja", "render", "syntax_error"]

MAX_SOURCE_CHARS = 100_000

_NOT_NAME = re.compile(r"\W")


def has_jinja(template: Template) -> bool:
    """Tell whether a text is a Jinja template once its references are taken out."""
    text = "".join(s if isinstance(s, str) else "x" for s in template.segments)
    tag = text.find("{%")
    return "{{" in text or "}}" in text or (tag >= 0 and "%}" in text[tag + 2 :])


def syntax_error(template: Template) -> str:
    """Give what is wrong with a Jinja template, or ``""``."""
    from jinja2 import TemplateError

    from ragflow_lg import template_sandbox

    if len(template.source) > MAX_SOURCE_CHARS:
        return f"it is longer than {MAX_SOURCE_CHARS:,} characters"
    try:
        template_sandbox.check(_source(template))
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
    import asyncio  # takes longer to import than checking a canvas does

    return await asyncio.to_thread(_rendered, template, values)


def _rendered(template: Template, values: Mapping[str, JsonValue]) -> str:
    from jinja2 import TemplateError

    from ragflow_lg import template_sandbox

    context = {name: values.get(text) for text, name in _names(template).items()}
    context |= {_token(text): values.get(text) for text in values}
    template_sandbox.start()
    pieces: list[str] = []
    size = 0
    try:
        for piece in template_sandbox.compiled(_source(template)).generate(context):
            size += len(piece)
            if size > template_sandbox.MAX_OUTPUT_CHARS:
                limit = template_sandbox.MAX_OUTPUT_CHARS
                raise ComponentError(f"The template makes a text of more than {limit:,} characters.")
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
