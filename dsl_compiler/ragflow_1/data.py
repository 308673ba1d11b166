"""Conditions of ``rules/data.toml``: data, tools and texts. Each has the name of its rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragflow_lg.base.lenient_values import as_items, as_list, as_map, as_text
from ragflow_lg.dsl.variable_references import find_references, parse_reference
from ragflow_lg.dsl_compiler.ragflow_1.breaks import is_legacy, switch_items
from ragflow_lg.dsl_compiler.ragflow_1.engine import is_list_or_map
from ragflow_lg.dsl_compiler.ragflow_1.examined_canvas import Canvas, Hit, texts_at, without_braces
from ragflow_lg.dsl_compiler.ragflow_1.rules import NAMES

_RETRIEVAL_DEFAULTS = {"top_n": 8, "top_k": 1024, "similarity_threshold": 0.2, "keywords_similarity_weight": 0.5}


_OPERATIONS = frozenset(
    ["overwrite", "clear", "set", "append", "extend", "remove_first", "remove_last", "+=", "-=", "*=", "/="]
)


def retrieval_query_bare(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Retrieval"):
        query = node.params.text("query")
        source = canvas.first_source(node)
        given = source is not None and (
            source.component == "Begin" or "query" in as_map(source.params.values.get("inputs"))
        )
        if "{" not in query and parse_reference(query.strip()) is not None and not given:
            yield node.params.hit("query", query, node.params.set("query", f"{{{query.strip()}}}"))


def retrieval_text_format(canvas: Canvas) -> Iterator[Hit]:
    for params, path, reference in canvas.references():
        source = canvas.nodes.get(reference.node)
        is_shown = params.component in ("LLM", "Agent", "Categorize", "Message", "Generate")
        if is_shown and source is not None and (source.component, reference.key) == ("Retrieval", "formalized_content"):
            yield Hit(path, reference.text, (), params.node)
    for tool in canvas.tools:
        if tool.component == "Retrieval":
            yield tool.hit()


def retrieval_json(canvas: Canvas) -> Iterator[Hit]:
    for params, path, reference in canvas.references():
        source = canvas.nodes.get(reference.node)
        if source is not None and source.component == "Retrieval" and reference.key == "json":
            yield Hit(path, reference.text, (), params.node)


def retrieval_defaults(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Retrieval"):
        lacking = {key: value for key, value in _RETRIEVAL_DEFAULTS.items() if key not in params.values}
        if lacking:
            edits = tuple(edit for key, value in lacking.items() for edit in params.set(key, value))
            yield params.hit("", f"no {', '.join(lacking)}", edits)


def tool_node_query_ignored(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of(*NAMES["query_tools"]):
        source = canvas.first_source(node)
        if source is not None and source.component == "Begin" and node.params.text("query").strip("{} ") == "sys.query":
            continue
        yield node.params.hit("query")


def invoke_request(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Invoke"):
        texts = f"{params.values.get('url')} {params.values.get('headers')}"
        if params.values.get("variables") or next(find_references(texts), None) is not None:
            yield params.hit("variables" if params.values.get("variables") else "url")


def codeexec_arguments(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("CodeExec"):
        for key, value in as_map(node.params.values.get("arguments")).items():
            bare = without_braces(as_text(value))
            if bare is not None:
                path = (*node.params.path, "arguments", key)
                yield Hit(path, as_text(value), node.params.set_at(path, bare), node.id)


def assigner_set_braces(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("VariableAssigner"):
        for index, row in enumerate(node.params.entries("variables")):
            text = as_text(row.get("parameter"))
            if row.get("operator") == "set" and next(find_references(text), None) is not None and "{{" not in text:
                bare = without_braces(text)
                mended = {**row, "operator": "overwrite", "parameter": bare}
                path = (*node.params.path, "variables", index)
                yield Hit(path, text[:80], node.params.set_at(path, mended) if bare is not None else (), node.id)


def assigner_operation_unknown(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("VariableAssigner"):
        for index, row in enumerate(node.params.entries("variables")):
            if as_text(row.get("operator")) not in _OPERATIONS:
                path = (*node.params.path, "variables", index, "operator")
                yield Hit(path, f"the operation {row.get('operator')!r}", (), node.id)


def switch_equals_fold(canvas: Canvas) -> Iterator[Hit]:
    for node, path, item in switch_items(canvas):
        value = as_text(item.get("value"))
        if item.get("operator") == "=" and any(char.isalnum() for char in value):
            yield Hit(path, f"= {value}", (), node.id)


def switch_empty(canvas: Canvas) -> Iterator[Hit]:
    for node, path, item in switch_items(canvas):
        if item.get("operator") in ("empty", "not empty"):
            yield Hit(path, as_text(item.get("cpn_id")), (), node.id)


def switch_contains_list(canvas: Canvas) -> Iterator[Hit]:
    for node, path, item in switch_items(canvas):
        reference = parse_reference(as_text(item.get("cpn_id")).strip("{} "))
        is_test = item.get("operator") in ("contains", "not contains", "start with", "end with")
        if is_test and reference is not None and _may_be_list(canvas, reference.text):
            yield Hit(path, reference.text, (), node.id)


def _may_be_list(canvas: Canvas, text: str) -> bool:
    reference = parse_reference(text)
    if reference is None:
        return False
    if reference.kind == "global":
        value = as_map(canvas.document.get("globals")).get(reference.key)
        variables = as_map(canvas.document.get("variables"))
        kind = as_text(as_map(variables.get(reference.key.partition(".")[2])).get("type")).lower()
        return isinstance(value, (list, dict)) or kind.startswith(("array", "object"))
    return is_list_or_map(canvas, reference)


def switch_empty_item(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Switch"):
        for number, condition in enumerate(node.params.entries("conditions")):
            items = [as_map(item) for item in as_list(condition.get("items"))]
            kept = [item for item in items if item.get("cpn_id")]
            joins_all = condition.get("logical_operator") == "and"
            matter = [item for item in items if item not in kept and _compares_empty_text(item) is not joins_all]
            if kept and matter:
                path = (*node.params.path, "conditions", number, "items")
                yield Hit(path, "", node.params.set_at(path, kept), node.id)


def _compares_empty_text(item: Mapping[str, Any]) -> bool | None:
    """Return whether an empty text meets an item, or None if the operator is another one."""
    operator, is_blank = item.get("operator"), not item.get("value")
    if operator in ("=", "contains", "start with", "end with"):
        return is_blank
    if operator in ("≠", "not contains"):
        return not is_blank
    return {"empty": True, "not empty": False}.get(as_text(operator))


def switch_no_logical(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Switch"):
        for number, condition in enumerate(node.params.entries("conditions")):
            if len(as_list(condition.get("items"))) > 1 and not condition.get("logical_operator"):
                path = (*node.params.path, "conditions", number)
                yield Hit(path, "", node.params.set_at((*path, "logical_operator"), "or"), node.id)


def data_updates_reference(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("DataOperations"):
        for path, text in texts_at(node.params.values.get("updates"), (*node.params.path, "updates")):
            if next(find_references(text), None) is not None or parse_reference(text) is not None:
                yield Hit(path, text, (), node.id)


def message_alternatives(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Message"):
        if len(as_list(node.params.values.get("content"))) > 1:
            yield node.params.hit("content", f"{len(as_list(node.params.values.get('content')))} texts")


def message_downloads(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Message"):
        for path, text in texts_at(node.params.values.get("content"), (*node.params.path, "content")):
            for found in find_references(text):
                source = canvas.nodes.get(found.reference.node)
                is_file = source is not None and source.component in ("DocGenerator", "ExcelProcessor")
                if is_file or found.reference.key == "downloads" or _holds_files(canvas, found.reference.key):
                    yield Hit(path, found.reference.text, (), node.id)


def _holds_files(canvas: Canvas, key: str) -> bool:
    value = as_map(canvas.document.get("globals")).get(key)
    return any({"doc_id", "filename"} <= as_map(row).keys() for row in as_items(value))


def legacy(canvas: Canvas) -> Iterator[Hit]:
    yield from (node.hit(f"the component {node.component}") for node in canvas.nodes.values() if is_legacy(node))
