"""Conditions of ``rules/engine.toml``: order, branches, regions and forms. Each has the name of its rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts
from ragflow_lg.dsl.variable_references import Reference, find_references, parse_reference
from ragflow_lg.dsl_compiler.compiler import check_canvas
from ragflow_lg.dsl_compiler.flow import find_predecessors
from ragflow_lg.dsl_compiler.ragflow_1.breaks import may_precede
from ragflow_lg.dsl_compiler.ragflow_1.examined_canvas import Canvas, Edit, Hit, Node, texts_at

_JINJA = re.compile(r"\{%|\{#|\{\{(?!\s*[\w:\-]+@[\w.\-]+\s*\}\}|\s*(?:sys|env)\.[\w.]+\s*\}\})")
_SPACED = re.compile(
    r"\{(\s+)([\w:\-]+@[\w.\-]+|(?:sys|env)\.[\w.]+)(\s*)\}|\{([\w:\-]+@[\w.\-]+|(?:sys|env)\.[\w.]+)\s+\}"
)
_DOUBLE = re.compile(r"\{\{\s*([\w:\-]+@[\w.\-]+|(?:sys|env)\.[\w.]+)\s*\}\}")

_TEXT_READERS = frozenset(
    ["LLM", "Agent", "Categorize", "StringTransform", "Switch", "ExeSQL", "Retrieval", "UserFillUp", "Email", "Invoke"]
)
"""Components that put values into texts."""

_FAULTS = frozenset(
    {"begin-missing", "params-invalid", "component-unknown", "reference-unknown-node", "target-unknown"}
)
"""Diagnostics about faults that stop a canvas in 0.27, or a run of it."""


def retries_ignored(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("LLM", "Agent", "Categorize", "Invoke"):
        tries = params.values.get("max_retries")
        if isinstance(tries, (int, float)) and tries > 0:
            yield params.hit("max_retries", f"{tries} tries")


def edges_from_upstream(canvas: Canvas) -> Iterator[Hit]:
    followers = {node.id: (*node.downstream, *_targets(node)) for node in canvas.nodes.values()}
    before = find_predecessors(followers)
    for node in canvas.nodes.values():
        wanted = [id_ for id_ in before[node.id] if may_precede(canvas, node, id_)]
        listed = node.upstream or ()
        lacking = [id_ for id_ in wanted if id_ not in listed]
        extra = [id_ for id_ in listed if id_ in canvas.nodes and node.id not in followers[id_]]
        extra = [id_ for id_ in extra if canvas.nodes[id_].component not in ("Loop", "Iteration")]
        if lacking or extra:
            detail = f"only in downstream: {', '.join(lacking)}" if lacking else f"only in upstream: {', '.join(extra)}"
            mended = [id_ for id_ in dict.fromkeys((*listed, *lacking)) if id_ not in extra]
            yield node.hit(detail, (Edit((*node.path, "upstream"), mended),), "upstream")


def router_downstream_short(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Switch", "Categorize"):
        targets = _targets(node)
        lacking = [id_ for id_ in targets if id_ in canvas.nodes and id_ not in node.downstream]
        if lacking:
            mended = list(dict.fromkeys((*node.downstream, *lacking)))
            upstream = [
                Edit((*canvas.nodes[id_].path, "upstream"), [*(canvas.nodes[id_].upstream or ()), node.id])
                for id_ in lacking
                if node.id not in (canvas.nodes[id_].upstream or ())
            ]
            yield node.hit(", ".join(lacking), (Edit((*node.path, "downstream"), mended), *upstream), "downstream")


def _targets(node: Node) -> tuple[str, ...]:
    values = node.params.values
    rows = [*as_map(values.get("category_description")).values(), *as_list(values.get("conditions"))]
    found = [target for row in rows for target in as_texts(as_map(row).get("to"))]
    return tuple(dict.fromkeys([*found, *as_texts(values.get("end_cpn_ids"))]))


def body_without_parentid(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        if node.declared_parent and node.declared_parent != node.drawn_parent:
            edits = (Edit((*node.graph_path, "parentId"), node.declared_parent),) if node.graph_path else ()
            yield node.hit(f"the body of {node.declared_parent}", edits)


def else_many(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Switch"):
        if len(as_texts(node.params.values.get("end_cpn_ids"))) > 1:
            yield node.params.hit("end_cpn_ids")


def branch_join(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.nodes.values():
        before = canvas.predecessors[node.id]
        if len({canvas.depths.get(id_) for id_ in before}) > 1:
            yield node.hit(f"after {', '.join(canvas.nodes[id_].title for id_ in before)}")


def reads_without_edge(canvas: Canvas) -> Iterator[Hit]:
    for params, path, reference in canvas.references():
        source = canvas.nodes.get(reference.node)
        reader = canvas.nodes[params.node]
        if source is None or reference.kind != "output" or source.id in (reader.id, reader.parent):
            continue
        if source.component in ("IterationItem", "LoopItem", "Loop", "Iteration", "Begin"):
            continue
        if source.parent == reader.parent and not canvas.follows(reader.id, source.id):
            yield Hit(path, f"reads {reference.text}", (), reader.id)


def message_shows_upstream(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Message"):
        source = canvas.first_source(node)
        text = next(iter(as_texts(node.params.values.get("content"))), "")
        if source is None or not _has_text_output(canvas, source):
            continue
        if text.strip() not in (f"{{{source.id}@content}}", f"{{{{{source.id}@content}}}}"):
            yield node.params.hit("content", f"the text of {source.title} is shown instead")


def _has_text_output(canvas: Canvas, node: Node) -> bool:
    if node.component in ("LLM", "Generate", "Message", "CodeExec", "Browser"):
        return True
    if node.component == "Agent":
        return not any(canvas.nodes[id_].component == "Message" for id_ in canvas.successors[node.id])
    names = {"content", "text"}
    if node.component in ("UserFillUp", "Fillup"):
        return bool(names & as_map(node.params.values.get("inputs")).keys())
    groups = node.params.entries("groups") if node.component == "VariableAggregator" else []
    return any(as_text(group.get("group_name")) in names for group in groups)


def query_captured_by_begin(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Categorize", "Retrieval"):
        source = canvas.first_source(node)
        query = node.params.text("query").strip("{} ")
        if source is not None and source.component == "Begin" and query not in ("", "sys.query"):
            yield node.params.hit("query", query)


def reference_nontext(canvas: Canvas) -> Iterator[Hit]:
    for params, path, reference in canvas.references():
        if params.component not in _TEXT_READERS or _is_bare_query(params.component, path):
            continue
        if is_list_or_map(canvas, reference):
            yield Hit(path, reference.text, (), params.node)


def _is_bare_query(component: str, path: tuple[str | int, ...]) -> bool:
    bare = ("items_ref", "split_ref", "cpn_id", "visual_files_var", "query")
    return component not in ("Retrieval", "Categorize") and path[-1] in bare


def is_list_or_map(canvas: Canvas, reference: Reference) -> bool:
    """Return whether the value of a reference is a list or map, as far as the document tells."""
    if reference.text in ("sys.history", "sys.files"):
        return True
    source = canvas.nodes.get(reference.node)
    if reference.kind != "output" or source is None or reference.path:
        return False
    if source.component in ("Iteration", "ListOperations", "DataOperations"):
        return reference.key not in ("first", "last")
    if source.component == "StringTransform":
        return source.params.text("method") == "split"
    declared = as_text(as_map(as_map(source.params.values.get("outputs")).get(reference.key)).get("type"))
    return declared.lower().startswith(("array", "object", "list"))


def reference_unset(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("StringTransform"):
        if node.params.text("method") == "split":
            continue
        for found in find_references(node.params.text("script")):
            source = canvas.nodes.get(found.reference.node)
            if source is not None and source.id != node.id and _may_not_run(canvas, source, node):
                yield node.params.hit("script", found.reference.text)


def reads_other_branch(canvas: Canvas) -> Iterator[Hit]:
    for params, path, reference in canvas.references():
        source, reader = canvas.nodes.get(reference.node), canvas.nodes[params.node]
        if params.component in ("VariableAggregator", "StringTransform") or source is None or source.id == reader.id:
            continue
        if _may_not_run(canvas, source, reader):
            yield Hit(path, reference.text, (), reader.id)


def _may_not_run(canvas: Canvas, source: Node, reader: Node) -> bool:
    """Return whether a node lies in a branch that a reader does not need."""
    if source.component in ("Begin", "IterationItem", "LoopItem") or source.parent != reader.parent:
        return False
    routers = [
        node
        for node in canvas.of("Switch", "Categorize")
        if canvas.follows(source.id, node.id) and node.id != source.id
    ]
    return any(
        any(
            not canvas.follows(source.id, t) and t != source.id and _leads(canvas, t, reader)
            for t in canvas.successors[r.id]
        )
        for r in routers
    )


def _leads(canvas: Canvas, id_: str, reader: Node) -> bool:
    return id_ == reader.id or canvas.follows(reader.id, id_)


def script_pipe(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("StringTransform"):
        script = node.params.text("script")
        if node.params.text("method") != "split" and "|" in script and "{" in script and not _JINJA.search(script):
            yield node.params.hit("script", "a vertical bar")
    for node in canvas.of("Retrieval"):
        query = node.params.text("query")
        if "|" in query or _JINJA.search(query):
            yield node.params.hit("query", "a vertical bar or a template")


def message_jinja(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Message"):
        if any(_JINJA.search(text) for text in as_texts(node.params.values.get("content"))):
            yield node.params.hit("content")


def string_jinja(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("StringTransform"):
        if node.params.text("method") != "split" and _JINJA.search(node.params.text("script")):
            yield node.params.hit("script")


def double_braces(canvas: Canvas) -> Iterator[Hit]:
    for path, text, node in _texts(canvas):
        if _DOUBLE.search(text) and not _JINJA.search(text):
            yield Hit(path, text[:80], (), node.id)


def braces_with_spaces(canvas: Canvas) -> Iterator[Hit]:
    for path, text, node in _texts(canvas):
        if _SPACED.search(text) and "{{" not in text:
            mended = _SPACED.sub(lambda match: f"{{{match[2] or match[4]}}}", text)
            yield Hit(path, text[:80], node.params.set_at(path, mended), node.id)


def _texts(canvas: Canvas) -> Iterator[tuple[tuple[str | int, ...], str, Node]]:
    for node in canvas.nodes.values():
        left_out = ("outputs", "tools", "script") if node.component == "CodeExec" else ("outputs", "tools")
        values = {key: value for key, value in node.params.values.items() if key not in left_out}
        for path, text in texts_at(values, node.params.path):
            yield path, text, node


def result_alias(canvas: Canvas) -> Iterator[Hit]:
    for params, path, reference in canvas.references():
        source = canvas.nodes.get(reference.node)
        reader = canvas.nodes[params.node]
        if reference.kind == "alias" and reference.key == "result" and reader.parent and params.component != "CodeExec":
            yield Hit(path, "{result}", _replace_text(canvas, params.node, path, "{result}", "{item}"), params.node)
        elif source is not None and source.component == "IterationItem" and reference.key == "result":
            old, new = f"{source.id}@result", f"{source.id}@item"
            yield Hit(path, old, _replace_text(canvas, params.node, path, old, new), params.node)
    for node in canvas.of("IterationItem"):
        if not node.id.startswith("IterationItem:"):
            yield node.hit(f"the id {node.id}")


def _replace_text(canvas: Canvas, id_: str, path: tuple[str | int, ...], old: str, new: str) -> tuple[Edit, ...]:
    value: Any = canvas.document
    for key in path:
        entries = as_map(value) or dict(enumerate(as_list(value)))
        if key not in entries:
            return ()
        value = entries.get(cast("Any", key))
    return canvas.nodes[id_].params.set_at(path, as_text(value).replace(old, new))


def begin_fields_unbound(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Begin"):
        fields = as_map(node.params.values.get("inputs"))
        if fields:
            yield node.params.hit("inputs", f"the fields {', '.join(fields)}")


def iteration_state(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("VariableAssigner"):
        region = canvas.nodes.get(node.parent)
        if region is not None and region.component == "Iteration":
            yield node.hit(f"in the body of {region.title}")


def iteration_outputs(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Iteration"):
        if any(inner.parent == node.id for inner in canvas.of("Switch", "Categorize")):
            yield node.hit("branches in its body")


def loop_do_while(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Loop"):
        conditions = node.params.entries("loop_termination_condition")
        joins_all = node.params.values.get("logical_operator", "and") == "and"
        met = [_is_met_at_start(node, row) for row in conditions]
        if (all(each is not False for each in met)) if joins_all else any(each is not False for each in met):
            yield node.params.hit("loop_termination_condition")


def _is_met_at_start(loop: Node, row: Mapping[str, Any]) -> bool | None:
    """Return whether a condition of a Loop is met before its first round, or None if the document does not tell."""
    starts = {
        as_text(each.get("variable")): each.get("value")
        for each in loop.params.entries("loop_variables")
        if each.get("input_mode") == "constant"
    }
    reference = parse_reference(as_text(row.get("variable")))
    start, wanted = starts.get(reference.key if reference is not None else ""), row.get("value")
    if reference is None or reference.node != loop.id or start is None or row.get("input_mode") == "variable":
        return None
    operator = row.get("operator")
    if operator in ("=", "is", "≠", "is not"):
        return (str(start).lower() == str(wanted).lower()) == (operator in ("=", "is"))
    if operator in ("empty", "not empty"):
        is_empty = not start and not isinstance(start, (int, float))  # 0 and false are values in 0.27
        return is_empty == (operator == "empty")
    try:
        number, limit = float(start), float(as_text(wanted) or str(wanted))
    except (TypeError, ValueError, OverflowError):
        return None
    results = {">": number > limit, "≥": number >= limit, "<": number < limit, "≤": number <= limit}
    return results.get(as_text(operator))


def loop_bool_empty(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Loop"):
        types = {
            as_text(row.get("variable")): as_text(row.get("type")).lower()
            for row in node.params.entries("loop_variables")
        }
        for index, row in enumerate(node.params.entries("loop_termination_condition")):
            reference = parse_reference(as_text(row.get("variable")))
            kind = types.get(reference.key, "") if reference is not None else ""
            if row.get("operator") in ("empty", "not empty") and kind in ("number", "boolean", "integer"):
                path = (*node.params.path, "loop_termination_condition", index)
                yield Hit(path, f"{row.get('operator')} of a {kind}", (), node.id)


def form_always_pauses(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("UserFillUp", "Fillup"):
        fields = [as_map(field) for field in as_map(node.params.values.get("inputs")).values()]
        if all(field.get("optional") for field in fields):
            yield node.hit()


def forms_side_by_side(canvas: Canvas) -> Iterator[Hit]:
    forms = list(canvas.of("UserFillUp", "Fillup"))
    for form in forms:
        beside = [f.title for f in forms if f.id != form.id and set(canvas.sources(f)) & set(canvas.sources(form))]
        shared = [id_ for id_ in canvas.sources(form) if canvas.nodes[id_].component not in ("Switch", "Categorize")]
        if beside and shared:
            yield form.hit(f"beside {', '.join(beside)}")


def form_in_body(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("UserFillUp", "Fillup"):
        region = canvas.nodes.get(node.parent)
        if region is not None:
            yield node.hit(f"in the body of {region.title}")


def form_id(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("UserFillUp", "Fillup"):
        if not node.id.lower().startswith("userfillup"):
            yield node.hit(f"the id {node.id}")


def faults_not_found(canvas: Canvas) -> Iterator[Hit]:
    if canvas.nodes and "begin" not in canvas.nodes:
        yield Hit(("components",), "no node has the id begin")
    _, diagnostics = check_canvas(canvas.document, canvas.draft.catalog)
    for diagnostic in diagnostics:
        is_noticed = diagnostic.pointer.endswith("/operations")  # 1.0 refuses unknown operations as well
        if diagnostic.severity != "info" and diagnostic.code in _FAULTS and not is_noticed:
            segments = diagnostic.pointer.split("/")[1:]
            path = tuple(segment.replace("~1", "/").replace("~0", "~") for segment in segments)
            yield Hit(path, diagnostic.message.partition(";")[0].rstrip("."), (), diagnostic.node)


def no_message(canvas: Canvas) -> Iterator[Hit]:
    if canvas.nodes and next(canvas.of("Message"), None) is None:
        yield Hit(("components",))
