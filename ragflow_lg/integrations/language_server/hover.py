"""What the editor shows about the thing below the pointer, as Markdown."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.parameter_help import ParameterHelp
from ragflow_lg.component.spec import ComponentParams
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.integrations.language_server.canvas_model import (
    CanvasModel,
    describe_type,
    find_parameter,
    one_line,
    parameters,
)
from ragflow_lg.integrations.language_server.canvas_text import CanvasText, Mention, Place, path_in_params

MAX_OUTPUTS = 50
MAX_VALUE_CHARS = 80
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")


class Hover(NamedTuple):
    """A text about a place."""

    markdown: str
    place: Place


def find_hover(canvas: CanvasText, model: CanvasModel, offset: int) -> Hover | None:
    """Return what is known about the component, reference or parameter at a cursor."""
    mention = canvas.mention_at(offset)
    if mention is None:
        return _hover_parameter(canvas, model, offset)
    if mention.reference is None or (mention.id_place is not None and mention.id_place.contains(offset)):
        text = describe_component(model, mention.component)
        return Hover(text, mention.id_place or mention.place) if text else None
    return Hover(_describe_reference(canvas, model, mention, mention.reference, offset), mention.place)


def describe_component(model: CanvasModel, id_: str) -> str:
    """Return the title of a node, what it does, its parameters, and its outputs with their types; ``""`` if unknown."""
    spec, node = model.spec(id_), model.node(id_)
    if spec is None:
        return ""
    lines = [f"**{escape(model.title(id_))}** · {code(id_)}", "", f"{escape(spec.name)}: {escape(spec.description)}"]
    common = ComponentParams.model_fields
    own = [one for one in parameters(spec.params) if one.name not in common and one.type != "anything"]
    if own:
        lines += ["", "Parameters:", *(f"- {code(one.name)}: {escape(one.type)}" for one in own)]
    outputs = list(model.values.outputs(node)) if node is not None else []
    if outputs:
        lines += ["", "Outputs:"]
        lines += [_output(v.text.partition("@")[2], describe_type(v.schema)) for v in outputs[:MAX_OUTPUTS]]
    return "\n".join(lines)


def _output(name: str, type_: str) -> str:
    return f"- {code(name)}: {type_}" if type_ else f"- {code(name)}"


def _describe_reference(
    canvas: CanvasText, model: CanvasModel, mention: Mention, reference: Reference, offset: int
) -> str:
    head = code(reference.text)
    if reference.kind == "alias":
        reader = canvas.component_at(canvas.path_at(offset))
        values = model.readable_by(reader.id) if reader is not None else ()
        type_ = next((describe_type(v.schema) for v in values if v.text == reference.key), "")
        return f"{head}{': ' + type_ if type_ else ''}\n\nThe item of the round, or its number."
    type_ = describe_type(model.values.schema(reference))
    head += f": {type_}" if type_ else ": of unknown type"
    if reference.kind == "global":
        value = model.draft.globals.get(reference.key)
        if reference.key not in model.draft.globals:
            return f"{head}\n\nThere is no such variable."
        about = "A variable of the canvas" if reference.key.startswith("env.") else "A value of the turn"
        return f"{head}\n\n{about}, {_first_value(value)}."
    spec = model.spec(mention.component)
    if spec is None:
        return f"{head}\n\nThere is no component {code(mention.component)}."
    title = escape(model.title(mention.component))
    return f"{head}\n\nAn output of **{title}** ({escape(spec.name)}: {escape(spec.description)})"


def _first_value(value: JsonValue) -> str:
    if value is None or value in ("", [], {}):
        return "empty at first"
    return f"at first {code(json.dumps(value, ensure_ascii=False)[:MAX_VALUE_CHARS])}"


def _hover_parameter(canvas: CanvasText, model: CanvasModel, offset: int) -> Hover | None:
    """Return what is known about the parameter whose key is at a cursor."""
    span = canvas.spans.at(offset) if canvas.spans is not None else None
    if span is None or span.key_start < 0 or not canvas.key_place(span).contains(offset):
        return None
    entry = canvas.component_at(span.path)
    spec = model.spec(entry.id) if entry is not None else None
    path = path_in_params(span.path[len(canvas.base) + 2 :])
    if spec is None or path is None:
        return None
    found = find_parameter(spec, path)
    return None if found is None else Hover(_describe_parameter(found), canvas.key_place(span))


def _describe_parameter(found: ParameterHelp) -> str:
    lines = [f"{code(found.name)}: {escape(found.type)}"]
    if found.choices:
        lines += ["", f"One of: {', '.join(code(choice) for choice in found.choices)}"]
    if found.about:
        lines += ["", escape(found.about)]
    if found.required:
        lines += ["", "It is required."]
    elif found.default is not None:
        lines += ["", f"Default: {code(json.dumps(found.default, ensure_ascii=False)[:MAX_VALUE_CHARS])}"]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Return a text of a canvas as Markdown that shows it unchanged, on one line."""
    return _MARKUP.sub(r"\\\1", one_line(text))


def code(text: str) -> str:
    """Return a short text as code in Markdown."""
    return f"`{one_line(text).replace('`', chr(0x2BC))}`"
