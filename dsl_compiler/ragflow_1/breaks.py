"""Conditions of ``rules/breaks.toml``: what stops a canvas in RAGFlow 1.0. Each has the name of its rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts
from ragflow_lg.dsl.variable_references import parse_reference
from ragflow_lg.dsl_compiler.flow import reach
from ragflow_lg.dsl_compiler.ragflow_1.examined_canvas import (
    REMOVED,
    Canvas,
    Edit,
    Hit,
    Node,
    Params,
    Path,
    derive_components,
    texts_at,
    without_braces,
)
from ragflow_lg.dsl_compiler.ragflow_1.rules import NAMES

NODES = frozenset(NAMES["nodes"])
"""Components of RAGFlow 1.0, in lower case."""

TOOLS = frozenset(NAMES["tools"])
"""Tools of an Agent in RAGFlow 1.0, in lower case."""

REGIONS = ("Loop", "Iteration")

_WITHOUT_PARAMS = frozenset(NAMES["without_params"])

_RETRIEVAL_PARAMS = frozenset(NAMES["retrieval_params"])


def graph_only(canvas: Canvas) -> Iterator[Hit]:
    if canvas.is_graph_only:
        yield Hit((), "", (Edit(("components",), derive_components(canvas.draft)),))


def component_unknown(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        if node.component.lower() in NODES or is_legacy(node):
            continue
        edits: tuple[Edit, ...] = ()
        if node.component == "PDFGenerator":
            edits = (Edit((*node.path, "obj", "component_name"), "DocGenerator"),)
            edits += (Edit((*node.graph_path, "data", "label"), "DocGenerator"),) if node.graph_path else ()
        yield node.hit(f"the component {node.component}", edits)


def back_edge(canvas: Canvas) -> Iterator[Hit]:
    seen: set[str] = set()
    for id_, node in canvas.nodes.items():
        level = {
            each: tuple(t for t in canvas.successors[each] if _is_inside(canvas.nodes[t], node.parent))
            for each, other in canvas.nodes.items()
            if other.parent == node.parent
        }
        around = reach(level, level[id_])
        if id_ in around and id_ not in seen and level[id_] != (id_,):
            cycle = [each for each in level if each in around and id_ in reach(level, level[each])]
            seen.update(cycle)
            if len(cycle) > 1:
                yield node.hit(f"a cycle of {', '.join(canvas.nodes[each].title for each in cycle)}")


def _is_inside(node: Node, parent: str) -> bool:
    """Return whether a node belongs to a level and runs there: an edge to an item node only ends the round."""
    return node.parent == parent and node.component not in ("IterationItem", "LoopItem")


def duplicate_upstream(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        ids = node.upstream or ()
        if len(set(ids)) < len(ids):
            unique = list(dict.fromkeys(ids))
            yield node.hit("", (Edit((*node.path, "upstream"), unique),), "upstream")


def nested_loop(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of(*REGIONS):
        outer = canvas.nodes.get(node.parent)
        if outer is not None:
            yield node.hit(f"{node.component} inside {outer.title}")


def reserved_id(canvas: Canvas) -> Iterator[Hit]:
    for id_ in ("start", "end"):
        node = canvas.nodes.get(id_)
        if node is not None:
            yield node.hit(f"the id {id_}")


def unknown_upstream(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        wrong = [id_ for id_ in dict.fromkeys(node.upstream or ()) if not may_precede(canvas, node, id_)]
        if wrong:
            kept = [id_ for id_ in node.upstream or () if id_ not in wrong]
            yield node.hit(", ".join(wrong), (Edit((*node.path, "upstream"), kept),), "upstream")


def may_precede(canvas: Canvas, node: Node, id_: str) -> bool:
    """Return whether RAGFlow 1.0 finds the node of an id at the level of another one."""
    other = canvas.nodes.get(id_)
    return other is not None and (not other.parent or bool(node.parent))


def self_edge(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        if node.id in (*node.downstream, *(node.upstream or ())):
            yield node.hit()


def switch_operator_symbol(canvas: Canvas) -> Iterator[Hit]:
    yield from _operators(canvas, ("≠", "≥", "≤"))


def switch_operator_synonym(canvas: Canvas) -> Iterator[Hit]:
    yield from _operators(canvas, ("==", "!=", ">=", "<=", "<>"))


def switch_compare_text(canvas: Canvas) -> Iterator[Hit]:
    for node, path, item in switch_items(canvas):
        if item.get("operator") in (">", "<"):
            yield Hit(path, f"{item['operator']} {as_text(item.get('value'))}", (), node.id)


def _operators(canvas: Canvas, operators: tuple[str, ...]) -> Iterator[Hit]:
    for node, path, item in switch_items(canvas):
        if item.get("operator") in operators:
            yield Hit((*path, "operator"), f"the operator {item['operator']}", (), node.id)


def switch_items(canvas: Canvas) -> Iterator[tuple[Node, Path, Mapping[str, Any]]]:
    """Yield the items of all conditions of Switches with their paths."""
    for node in canvas.of("Switch"):
        for number, condition in enumerate(node.params.entries("conditions")):
            for index, item in enumerate(as_list(condition.get("items"))):
                yield node, (*node.params.path, "conditions", number, "items", index), as_map(item)


def agent_tool_params_refused(canvas: Canvas) -> Iterator[Hit]:
    for tool in canvas.tools:
        if tool.component.lower() in _WITHOUT_PARAMS and tool.values:
            yield tool.hit()


def agent_retrieval_param_refused(canvas: Canvas) -> Iterator[Hit]:
    for tool in canvas.tools:
        if tool.component.lower() in ("retrieval", "searchmydataset", "search_my_dataset", "search_my_dateset"):
            for key in tool.values:
                if key not in _RETRIEVAL_PARAMS:
                    yield tool.hit(key, f"the parameter {key}", tool.set(key, REMOVED))


def agent_akshare_param(canvas: Canvas) -> Iterator[Hit]:
    for tool in canvas.tools:
        if tool.component.lower() == "akshare":
            for key in tool.values:
                if key != "top_n":
                    yield tool.hit(key, f"the parameter {key}", tool.set(key, REMOVED))


def agent_tool_unknown(canvas: Canvas) -> Iterator[Hit]:
    for tool in canvas.tools:
        if tool.component and tool.component.lower() not in TOOLS:
            yield tool.hit()


def agent_same_tool_twice(canvas: Canvas) -> Iterator[Hit]:
    seen: set[tuple[Path, str]] = set()
    for tool in canvas.tools:
        name = tool.component.lower()
        key = (tool.path[:-2], name)
        if name != "agent" and key in seen:
            yield tool.hit("", "a second one")
        seen.add(key)


def tool_param_type(canvas: Canvas) -> Iterator[Hit]:
    for tool in canvas.tools:
        for key in NAMES["positive"].get(tool.component.lower(), ()):
            value = tool.values.get(key)
            if value is None:
                continue
            number = _as_number(value)
            most = 20 if key == "max_results" else 10**9
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
                edits = tool.set(key, number) if isinstance(value, str) and 0 < number <= most else ()
                yield tool.hit(key, f"{key} is {value!r}", edits)


def _as_number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def retrieval_use_kg(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Retrieval"):
        if params.values.get("use_kg") is True:
            yield params.hit("use_kg")


def loop_row_incomplete(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Loop"):
        for index, row in enumerate(node.params.entries("loop_variables")):
            lacking = [key for key in ("variable", "input_mode", "value", "type") if row.get(key) is None]
            if lacking:
                yield Hit((*node.params.path, "loop_variables", index), f"no {', '.join(lacking)}", (), node.id)
        for index, row in enumerate(node.params.entries("loop_termination_condition")):
            lacking = [key for key in ("variable", "operator") if not row.get(key)]
            if lacking:
                path = (*node.params.path, "loop_termination_condition", index)
                yield Hit(path, f"no {', '.join(lacking)}", (), node.id)
        operator = node.params.values.get("logical_operator")
        if operator not in (None, "and", "or"):
            yield node.params.hit("logical_operator", f"the operator {operator!r}")


def list_nth_negative(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("ListOperations"):
        n = node.params.values.get("n")
        if node.params.text("operations") == "nth" and isinstance(n, int) and n < 0:
            yield node.params.hit("n", f"position {n}")


def split_then_list(canvas: Canvas) -> Iterator[Hit]:
    splits = {node.id for node in canvas.of("StringTransform") if node.params.text("method") == "split"}
    for node in canvas.of("ListOperations", "DataOperations"):
        for path, text in texts_at(node.params.values.get("query"), (*node.params.path, "query")):
            reference = parse_reference(text.strip("{} "))
            if reference is not None and reference.node in splits and reference.key == "result":
                yield Hit(path, reference.text, (), node.id)


def list_query_braced(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        for path, text in texts_at(_bare_places(node), node.params.path):
            bare = without_braces(text)
            if bare is not None:
                yield Hit(path, text, node.params.set_at(path, bare), node.id)


def _bare_places(node: Node) -> dict[str, Any]:
    """Return the parameters of a node that hold bare references."""
    keys = {
        "ListOperations": ("query",),
        "Iteration": ("items_ref",),
        "DataOperations": ("query",),
        "StringTransform": ("split_ref",),
        "Categorize": ("query",),
    }
    values = {key: node.params.values.get(key) for key in keys.get(node.component, ())}
    if node.component == "VariableAssigner":
        values["variables"] = [{"variable": row.get("variable")} for row in node.params.entries("variables")]
    if node.component == "VariableAggregator":
        values["groups"] = [
            {"variables": [{"value": as_map(each).get("value")} for each in as_list(group.get("variables"))]}
            for group in node.params.entries("groups")
        ]
    return values


def exesql_incomplete(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("ExeSQL"):
        lacking = [key for key in ("db_type", "host", "username", "database") if not params.values.get(key)]
        kind = params.text("db_type")
        if lacking or kind.lower() in ("trino", "ibm db2"):
            yield params.hit("", f"no {', '.join(lacking)}" if lacking else f"the database {kind}")


def invoke_method_missing(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Invoke"):
        if not params.values.get("method"):
            yield params.hit("", "", params.set("method", "get"))


def form_file_field(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("UserFillUp", "Fillup"):
        for key, field in as_map(node.params.values.get("inputs")).items():
            if as_text(as_map(field).get("type")).lower().startswith("file"):
                yield Hit((*node.params.path, "inputs", key), f"the field {key}", (), node.id)


def save_refused_blank_row(canvas: Canvas) -> Iterator[Hit]:
    for params in (*(node.params for node in canvas.nodes.values()), *canvas.tools):
        for path, detail in _blank_rows(params):
            yield Hit(path, detail, (), params.node)


def _blank_rows(params: Params) -> Iterator[tuple[Path, str]]:
    if params.component == "Message":
        for index, text in enumerate(as_list(params.values.get("content"))):
            if isinstance(text, str) and not text.strip():
                yield (*params.path, "content", index), "a text of the Message is blank"
    if params.component == "Iteration":
        for key, output in as_map(params.values.get("outputs")).items():
            if as_map(output).get("ref") == "":
                yield (*params.path, "outputs", key), f"the output {key} has no reference"
    for name, keys in NAMES["rows"].get(params.component, {}).items():
        for index, row in enumerate(params.entries(name)):
            blank = [key for key in keys if isinstance(row.get(key), str) and not row[key].strip()]
            if blank:
                yield (*params.path, name, index), f"{blank[0]} of a row of {name} is blank"


def exception_default(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        if handles_errors(node) and not handlers(node):
            yield node.params.hit("exception_method", f"exception_method is {node.params.text('exception_method')}")


def exception_goto(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        if handles_errors(node) and handlers(node):
            yield node.params.hit("exception_goto", f"the handler {', '.join(handlers(node))}")


def handles_errors(node: Node) -> bool:
    """Return whether a node goes on after an error."""
    return bool(node.params.values.get("exception_method")) and node.component not in ("Switch", "Categorize")


def handlers(node: Node) -> tuple[str, ...]:
    """Return the nodes that follow after an error."""
    return as_texts(node.params.values.get("exception_goto"))


def is_legacy(node: Node) -> bool:
    """Return whether a node has a component from before 0.20 that 1.0 still loads."""
    return node.component in ("Answer", "Generate")
