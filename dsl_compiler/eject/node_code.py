"""Which nodes are written out, because a few lines of Python say what they do.

Each writer returns an expression for the outputs, or None if the node uses something that only its component can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.forms import form_fields, is_file
from ragflow_lg.dsl.templates.render import has_jinja
from ragflow_lg.dsl.variable_references import Template
from ragflow_lg.dsl_compiler.eject.node_writer import NodeWriter
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal, quoted

_PICKS: Mapping[str, Callable[[int], str]] = {
    "nth": lambda n: f"items[{n - 1}:{n}]" if n > 0 else f"items[{n}:][:1] if len(items) >= {-n} else []",
    "head": lambda n: f"items[:{max(n, 0)}]",
    "tail": lambda n: f"items[-{n}:]" if n > 0 else "items[:0]",
}


def write_list(writer: NodeWriter) -> Code | None:
    """Write a ListOperations that picks items by their position, sorts them or drops duplicates."""
    result = _list_result(writer)
    if result is None:
        return None
    params = writer.params
    writer.module.use_public("as_list")
    problem = "The input of List Operations should be an array."
    items = writer.call("as_list", writer.value(params.query), problem)
    writer.lines.append(f"items = {items}")
    writer.lines.append(f"result = {result}")
    first, last = Code("result[0] if result else None"), Code("result[-1] if result else None")
    return writer.outputs({"result": Code("result"), "first": first, "last": last})


def _list_result(writer: NodeWriter) -> str | None:
    params = writer.params
    if params.operations == "sort":
        writer.module.use_public("sort_items")
        return f"sort_items(items, {literal(params.sort_by)}, {params.sort_method == 'desc'})"
    if params.operations == "drop_duplicates":
        writer.module.use_public("drop_duplicates")
        return "drop_duplicates(items)"
    if params.operations not in _PICKS or params.strict or not isinstance(params.n, int):
        return None
    if params.operations == "nth" and params.n == 0:
        return None
    return _PICKS[params.operations](params.n)


def write_maps(writer: NodeWriter) -> Code | None:
    """Write a DataOperations that selects, removes or combines keys."""
    params = writer.params
    results = {
        "select_keys": f"{{key: entry[key] for key in entry if key in {_keys(params.select_keys)}}}",
        "remove_keys": f"{{key: entry[key] for key in entry if key not in {_keys(params.remove_keys)}}}",
    }
    if params.operations not in (*results, "combine"):
        return None
    writer.module.use_public("maps_of")
    maps = writer.call("maps_of", *map(writer.value, params.query))
    if params.operations == "combine":
        writer.module.use_public("combine_maps")
        return writer.outputs({"result": Code(f"combine_maps({maps})")})
    writer.lines.append(f"maps = {maps}")
    return writer.outputs({"result": Code(f"[{results[params.operations]} for entry in maps]")})


def _keys(names: Sequence[str]) -> str:
    return literal(list(dict.fromkeys(names)), 1)


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


def write_choice(writer: NodeWriter) -> Code | None:
    """Write a Switch as if, elif and else."""
    keyword = "if"
    for case in writer.params.conditions:
        if condition := _condition(writer, case):
            writer.lines += [f"{keyword} {condition}:", f"    chosen = {literal(list(case.to))}"]
            keyword = "elif"
    otherwise = f"chosen = {literal(list(writer.params.end_cpn_ids))}"
    writer.lines += ["else:", f"    {otherwise}"] if keyword == "elif" else [otherwise]
    writer.module.use(f"{writer.model.package}.canvas", "CANVAS")
    return writer.outputs({"next": Code("CANVAS.titles(chosen)"), "_next": Code("chosen")})


def _condition(writer: NodeWriter, case: Any) -> str:
    tests = [_test(writer, item) for item in case.items if item.cpn_id is not None]
    joiner = " and " if case.needs_all else " or "
    line = joiner.join(tests)
    if len(line) <= 72 or len(tests) < 2:
        return line
    return "(\n" + f"\n       {joiner.lstrip()}".join([f"        {tests[0]}", *tests[1:]]) + "\n    )"


def _test(writer: NodeWriter, item: Any) -> str:
    value = writer.value(item.cpn_id)
    if item.operator == "empty":
        return f"not {value}"
    if item.operator == "not empty":
        return str(value)
    writer.module.use_public("compare")
    return str(writer.call("compare", value, item.operator, writer.any_value(item.value)))


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


Writer: TypeAlias = Callable[[NodeWriter], Code | None]


def write_nothing(writer: NodeWriter) -> Code | None:
    """Write a node without outputs."""
    return writer.outputs({})


WRITERS: Mapping[str, Writer] = {
    "Message": write_message,
    "StringTransform": write_text,
    "Switch": write_choice,
    "VariableAggregator": write_first_values,
    "ListOperations": write_list,
    "DataOperations": write_maps,
    "UserFillUp": write_form,
    "ExitLoop": write_nothing,
}
"""By the name of the component."""


def write_outputs(writer: NodeWriter) -> Code | None:
    """Return an expression for the outputs of a node, or None if its component has to run it."""
    node = writer.node
    if node.is_skipped:
        return writer.outputs({})
    write = WRITERS.get(node.spec.name)
    if write is None or node.on_error.method:
        return None
    references = [reference for reference, _ in node.references]
    is_lenient = write is write_first_values
    return write(writer) if is_lenient or writer.knows(references) else None
