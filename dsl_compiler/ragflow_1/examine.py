"""Test all rules on a canvas, and make the safe changes."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import CompileError
from ragflow_lg.base.lenient_values import as_text
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.compiler import Source, add_positions, read_document
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.passes.collect_components import classify_document
from ragflow_lg.dsl_compiler.ragflow_1 import breaks, data, engine, looks, models
from ragflow_lg.dsl_compiler.ragflow_1.examined_canvas import REMOVED, Canvas, Edit, Hit
from ragflow_lg.dsl_compiler.ragflow_1.rules import RULES, Meets, Rule
from ragflow_lg.dsl_compiler.source import locate

Condition: TypeAlias = Callable[[Canvas], Iterator[Hit]]

_SURROGATE = re.compile("[\ud800-\udfff]")

_MODULES = (breaks, engine, models, data, looks)


def _find_condition(rule: Rule) -> Condition:
    if rule.meets is not None:
        return partial(_find_hits, rule.meets)
    name = rule.id.replace("-", "_")
    return next(getattr(module, name) for module in _MODULES if hasattr(module, name))


def _find_hits(meets: Meets, canvas: Canvas) -> Iterator[Hit]:
    if not meets.components and canvas.nodes:
        yield Hit(("components",))
    for params in canvas.params_of(*meets.components):
        values = all(_is_met(params.values.get(key), wanted) for key, wanted in meets.when.items())
        following = {canvas.nodes[id_].component for id_ in canvas.successors[params.node]}
        if values and (meets.tools or not params.is_tool) and meets.before in ("", *following):
            is_at_node = not meets.at and not meets.tools
            detail = params.text(meets.at) if meets.shows else ""
            yield canvas.nodes[params.node].hit() if is_at_node else params.hit(meets.at, detail)


def _is_met(value: Any, wanted: bool | str) -> bool:
    if isinstance(wanted, bool):
        return bool(value) is wanted
    return bool(as_text(value)) if wanted == "*" else as_text(value).lower() == wanted


CONDITIONS: dict[str, Condition] = {id_: _find_condition(rule) for id_, rule in RULES.items()}
"""The condition of each rule: its row of the table, or the function of its name."""


class Finding(NamedTuple):
    """A place of a canvas that is affected by a rule."""

    rule: Rule
    pointer: str
    """JSON pointer into the document as written."""
    node: str
    title: str
    """The title of the node as drawn in the editor."""
    detail: str
    line: int
    column: int
    is_fixable: bool

    @property
    def message(self) -> str:
        """What each engine does, in sentences."""
        detail = f"{self.detail[:1].upper()}{self.detail[1:]}. " if self.detail else ""
        return f"{detail}RAGFlow 0.27: {self.rule.old} RAGFlow 1.0: {self.rule.new}"


def examine(source: Source, catalog: Registry, *, every_rule: bool = False) -> tuple[Finding, ...]:
    """Return what RAGFlow 1.0 does otherwise with a canvas, the worst first.

    Args:
        source: The canvas.
        catalog: The components.
        every_rule: Whether to include what depends on the course of a run, or meets nearly every canvas.

    Raises:
        CompileError: if the source is no canvas.
    """
    draft, text, _ = _read(source, catalog)
    canvas = Canvas(draft)
    found: list[Finding] = []
    for rule in RULES.values():
        if rule.run_time and not every_rule:
            continue
        for hit in {(hit.path, hit.detail): hit for hit in CONDITIONS[rule.id](canvas)}.values():
            pointer = extend_pointer(draft.base, hit.path)
            node = canvas.nodes.get(hit.node)
            title = node.title if node is not None else ""
            found.append(Finding(rule, pointer, hit.node, title, hit.detail, 0, 0, bool(hit.edits)))
    return _with_lines(found, text)


def fix_canvas(source: Source, catalog: Registry) -> tuple[str, tuple[Finding, ...]]:
    """Return the text of a canvas with all safe changes, and the findings that they mend.

    One rule is applied after the other, each to the result of the last. The order of the entries and the indentation
    stay.

    Raises:
        CompileError: if the source is no canvas.
    """
    draft, text, _ = _read(source, catalog)
    text = text or json.dumps(source)
    try:
        json.loads(text)
    except ValueError:  # the compiler reads more than JSON, such as Python's words
        return text, ()
    mended: list[Finding] = []
    for rule in [rule for rule in RULES.values() if rule.fix]:
        draft, _, _ = _read(text, catalog)
        canvas = Canvas(draft)
        hits = [hit for hit in CONDITIONS[rule.id](canvas) if hit.edits]
        if not hits:
            continue
        before = [finding for finding in examine(text, catalog, every_rule=True) if finding.rule is rule]
        document = json.loads(text)
        inner = document["dsl"] if draft.base else document
        is_text = isinstance(inner, str)
        inner = json.loads(inner) if is_text else inner
        for edit in [edit for hit in hits for edit in hit.edits]:
            inner = _apply(inner, edit)
        document = {**document, "dsl": _dump(inner, None) if is_text else inner} if draft.base else inner
        text = _dump(document, _indentation(text))
        left = {f.pointer for f in examine(text, catalog, every_rule=True) if f.rule is rule and f.is_fixable}
        mended += [finding for finding in before if finding.is_fixable and finding.pointer not in left]
    return text, tuple(mended)


def as_diagnostic(finding: Finding) -> Diagnostic:
    """Return a finding in the form of `ragflow-lg check`."""
    severity = {"breaks": "error", "differs": "warning", "looks": "info"}[finding.rule.class_]
    hint = finding.rule.change
    return Diagnostic(
        finding.rule.id,
        cast("Any", severity),
        finding.pointer,
        finding.message,
        f"{hint} --fix does it." if finding.is_fixable else hint,
        finding.node,
        finding.title,
        finding.line,
        finding.column,
    )


def _read(source: Source, catalog: Registry) -> tuple[Draft, str, Reporter]:
    draft, text, reporter = read_document(source, catalog)
    draft = None if draft is None else classify_document(draft, reporter)
    if draft is None or any(d.code == "pipeline-document" for d in reporter.diagnostics):
        raise CompileError(add_positions(reporter.diagnostics, text))
    return draft, text, reporter


def _with_lines(found: list[Finding], text: str) -> tuple[Finding, ...]:
    order = list(RULES)
    positions = locate(text, [finding.pointer for finding in found]) if text else {}
    placed = [finding._replace(**positions[finding.pointer]._asdict()) if text else finding for finding in found]
    classes = ("breaks", "differs", "looks")
    return tuple(sorted(placed, key=lambda f: (classes.index(f.rule.class_), order.index(f.rule.id), f.line)))


def _apply(document: Any, edit: Edit) -> Any:
    """Return the document with an edit. It stays as it is if it does not have the value around the path."""
    if not edit.path:
        return edit.value
    changed = copy.copy(document)
    place: Any = changed
    for key in edit.path[:-1]:
        inner = _entry(place, key)
        if not isinstance(inner, (dict, list)):
            return document
        inner = copy.copy(cast("Any", inner))
        place[key] = inner
        place = inner
    last = edit.path[-1]
    if edit.value is REMOVED:
        if _entry(place, last) is not None:
            del place[last]
    elif isinstance(place, Mapping):
        cast("dict[str, Any]", place)[str(last)] = edit.value
    elif _entry(place, last) is not None:
        place[last] = edit.value
    else:
        return document
    return changed


def _entry(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).get(key)
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return entries[key] if isinstance(key, int) and key < len(entries) else None


def _indentation(text: str) -> str | None:
    """Return what indents the first level of a JSON text; None if it is one line."""
    match = re.match(r"\s*\{\s*\n([ \t]*)", text)
    return match[1] if match else None


def _dump(value: Any, indent: str | None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent) + ("\n" if indent is not None else "")
    return text if not _SURROGATE.search(text) else json.dumps(value, indent=indent) + "\n"
