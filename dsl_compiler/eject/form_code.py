"""UserFillUp, written out as an interrupt."""

from __future__ import annotations

from typing import Any, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.forms import form_fields, is_file
from ragflow_lg.dsl.variable_references import Template
from ragflow_lg.dsl_compiler.eject.node_writer import NodeWriter
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal, quoted


def write_form(writer: NodeWriter) -> Code | None:
    """Write a UserFillUp without files as an interrupt."""
    node, params, module = writer.node, writer.params, writer.module
    fields = _fields(params)
    has_files = any(is_file(field.type) for field in form_fields(params.inputs))
    if not fields or has_files or writer.model.plan.compatibility.unchecked_forms:
        return None
    module.use("typing", "Any")
    module.use("langgraph.types", "interrupt")
    module.use_public("form_problems", "parse_answers", "read_answer", "response_schema")
    clean = writer.model.environment.without_secrets(fields, writer.model.name(node.id))
    text = literal(clean)
    if "os.environ" in text:
        module.use("os")
    module.add(f"FIELDS: dict[str, Any] = {text}")
    tips = params.tips if params.enable_tips else None
    writer.lines.append(f"tips = {_tips(writer, tips)}")
    question = {"component_id": node.id, "title": node.title, "tips": Code("tips"), "inputs": Code("FIELDS")}
    writer.lines += [
        f"question = {literal(question, 1)}",
        "schema = response_schema(FIELDS, tips)",
        "answer = parse_answers(FIELDS, interrupt(question, response_schema=schema))",
        "while problems := form_problems(FIELDS, answer):",
        '    question = {**question, "problems": problems}',
        "    answer = parse_answers(FIELDS, interrupt(question, response_schema=schema))",
    ]
    rest = [f"{quoted(name)}: None, " for name in node.outputs if name not in fields]
    rest += [] if tips is None else ['"tips": tips, ']
    return Code(f"{{{''.join(rest)}**read_answer(FIELDS, answer)}}")


def _fields(params: Any) -> dict[str, Any]:
    """Return the fields as the component shows them."""
    declared: dict[str, Any] = params.inputs
    plain = {name: cast("dict[str, Any]", field) for name, field in declared.items() if isinstance(field, dict)}
    return {name: {**plain.get(name, {"name": name, "type": "line"}), "value": None} for name in declared}


def _tips(writer: NodeWriter, tips: Template | None) -> str:
    if tips is None:
        return '""'
    writer.module.use_public("tip_text")
    parts: list[JsonValue | Code] = [part if isinstance(part, str) else writer.value(part) for part in tips.segments]
    return str(writer.call("tip_text", *parts))
