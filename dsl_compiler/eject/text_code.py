"""Message, StringTransform and VariableAggregator, written out."""

from __future__ import annotations

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.templates.render import has_jinja
from ragflow_lg.dsl_compiler.eject.node_writer import NodeWriter
from ragflow_lg.dsl_compiler.eject.python_literals import Code, quoted


def write_message(writer: NodeWriter) -> Code | None:
    """Write a Message that shows one plain text."""
    node, params = writer.node, writer.params
    plan = writer.model.plan.messages.get(node.id)
    if plan is None or len(plan.alternatives) != 1 or not plan.alternatives[0].is_live:
        return None
    if params.status or params.auto_play or params.output_format:
        return None
    parts: list[JsonValue | Code] = []
    streamed: dict[str, Code] = {}
    for segment, model in plan.segments(plan.alternatives[0].template):
        if isinstance(segment, str):
            parts.append(segment)
            continue
        if model is not None:
            name = writer.model.quoted_name(model)
            streamed[segment.text] = Code(f"CANVAS.shown_answer(state, {name})")
            writer.module.use(f"{writer.model.package}.canvas", "CANVAS")
        parts.append(streamed.get(segment.text) or writer.value(segment))
    writer.module.use_public("show")
    shown = writer.call("show", *parts)
    rest = [name for name in node.outputs if name not in ("content", "downloads")]
    return Code("{" + "".join(f"{quoted(name)}: None, " for name in rest) + f"**{shown}}}") if rest else shown


def write_text(writer: NodeWriter) -> Code | None:
    """Write a StringTransform without Jinja."""
    params = writer.params
    if params.method == "split":
        value = writer.value(params.split_ref) if params.split_ref is not None else ""
        writer.module.use_public("split_text")
        delimiters = [delimiter for delimiter in params.delimiters if delimiter]
        return writer.outputs({"result": writer.call("split_text", value, delimiters)})
    if has_jinja(params.script):
        return None
    delimiter = params.delimiters[0]
    parts: list[JsonValue | Code] = []
    for segment in params.script.segments:
        if isinstance(segment, str):
            parts.append(segment)
        else:
            writer.module.use_public("join_items")
            parts.append(Code(f"join_items({writer.value(segment)}, {quoted(delimiter)})"))
    if len(parts) < 2:
        return writer.outputs({"result": parts[0] if parts else ""})
    writer.module.use_public("join_text")
    return writer.outputs({"result": writer.call("join_text", *parts)})


def write_first_values(writer: NodeWriter) -> Code | None:
    """Write a VariableAggregator."""
    values: dict[str, JsonValue | Code] = {}
    for group in writer.params.groups:
        if group.group_name not in writer.node.outputs:
            return None
        known = [reference for reference in group.variables if writer.knows([reference])]
        writer.module.use_public("first_value")
        values[group.group_name] = writer.call("first_value", *map(writer.value, known))
    return writer.outputs(values)
