"""Choose which of RAGFlow's behaviours apply, and report where a canvas may run differently without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import STREAMED_OUTPUT, PlanNode
from ragflow_lg.dsl.compatibility import ALL, OPTIONS, Compatibility, read_choices
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl.templates.render import has_jinja
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.reference_types import ReferenceTypes

MAX_NAMED = 5
"""Maximum number of fields that a message names."""

_CHECKED_FIELDS = frozenset({"options", "number", "integer", "boolean", "object"})
"""Types of form fields whose values are checked."""


class _Difference(NamedTuple):
    """A finding about a node or one of its tools. ``pointer`` is that of the node's or tool's params."""

    node: NodeId
    pointer: str
    finding: Finding


def choose_behaviours(draft: Draft, reporter: Reporter) -> Draft:
    """Choose which of RAGFlow's behaviours apply: those of the canvas, then those of the deployment."""
    base, declared = (draft.base, draft.document["compat"]) if "compat" in draft.document else ("", draft.compat)
    choices, problems = read_choices(declared)
    for problem in problems:
        pointer = extend_pointer(base, ["compat", problem.name] if problem.name else ["compat"])
        reporter.report("compat-invalid", "error", pointer, problem.message, problem.hint)
    others = Compatibility() if ALL in choices else draft.deployment.compatibility
    return replace(draft, compatibility=others.override(choices))


def check_differences(draft: Draft, reporter: Reporter) -> Draft:
    """Report the differences that matter to the canvas, except where RAGFlow's behaviour applies."""
    unread = frozenset(_find_unread_models(draft))
    for difference in _find_differences(draft, unread):
        if not getattr(draft.compatibility, OPTIONS[difference.finding.code]):
            _report(draft, difference, reporter)
    if not (draft.compatibility.skip_unread_models and unread):
        return draft
    nodes = {id_: replace(n, is_skipped=True) if id_ in unread else n for id_, n in draft.nodes.items()}
    return replace(draft, nodes=nodes)


def _report(draft: Draft, difference: _Difference, reporter: Reporter) -> None:
    code, severity, path, message, hint = difference.finding
    option, row = OPTIONS[code], code.removeprefix("differs-")
    hint = hint or f"docs/fidelity.md explains it under {row!r}; compat.{option} = true brings RAGFlow's way back."
    place = draft.components[difference.node].place_at(extend_pointer(difference.pointer, path))
    reporter.report(code, severity, place, message, hint)


def _find_differences(draft: Draft, unread: frozenset[NodeId]) -> Iterator[_Difference]:
    for node in draft.nodes.values():
        pointer = node.params_pointer
        for part in node.with_tools():
            for finding in part.spec.differences(part.params):
                yield _Difference(node.id, part.params_pointer, finding)
        findings = _find_jinja_values(draft, node) if node.spec.kind == "message" else _find_checked_fields(node)
        for finding in findings:
            yield _Difference(node.id, pointer, finding)
        if node.id in unread:
            message = "No node reads this model's answer: it is called here, but never in RAGFlow."
            yield _Difference(node.id, pointer, Finding("differs-unread-model", "warning", (), message))
    if retried := [node for node in draft.nodes.values() if node.streams_to and node.extra_attempts]:
        finding = Finding("differs-retry-after-text", "info", ("max_retries",), _describe_retries(retried))
        yield _Difference(retried[0].id, retried[0].params_pointer, finding)


def _find_jinja_values(draft: Draft, message: PlanNode) -> Iterator[Finding]:
    """Report values in Jinja templates that may not be text and are used like text."""
    for alternative in message.spec.shows(message.params):
        if alternative.is_live or not has_jinja(alternative.template):
            continue
        from ragflow_lg.dsl.templates.text_uses import find_text_uses  # imports Jinja

        paths, types = dict(message.references), ReferenceTypes(draft)
        for use in find_text_uses(alternative.template):
            is_text = types.is_text(use.reference)
            if is_text is False or (is_text is None and not use.is_test):
                is_known = "may not be text and" if is_text is None else "is not text and"
                text = (
                    f"{{{use.reference}}} {is_known} {use.description}; in RAGFlow, all values in a template are text."
                )
                yield Finding("differs-jinja-values", "warning", paths.get(use.reference, ("content",)), text)


def _find_checked_fields(node: PlanNode) -> Iterator[Finding]:
    """Report a form whose values are checked, or required before a turn begins, once for all its fields."""
    is_entry = node.spec.kind == "entry"
    if not is_entry and node.spec.kind != "interrupt":
        return
    declared = list(form_fields(node.params.inputs))
    fields = [f for f in declared if f.type.lower() in _CHECKED_FIELDS or (is_entry and not f.is_optional)]
    if fields:
        names = ", ".join(field.display_name for field in fields[:MAX_NAMED])
        begins = "begins, and must not be missing unless they are optional" if is_entry else "continues"
        text = f"The values of {names} are checked before the turn {begins}; RAGFlow accepts any values."
        yield Finding("differs-fillup-checked", "info", ("inputs",), text)


def _find_unread_models(draft: Draft) -> Iterator[NodeId]:
    """Yield the models that RAGFlow would stream into a Message, and whose answers nobody reads."""
    read = {r.node for r in _references(draft) if r.kind == "output" and r.key == STREAMED_OUTPUT}
    for node in draft.nodes.values():
        has_message = any(draft.nodes[target].spec.kind == "message" for target in node.downstream)
        streams = node.spec.kind == "model" and node.spec.streams(node.params) and not node.on_error.jumps
        if streams and has_message and node.id not in read:
            yield node.id


def _references(draft: Draft) -> Iterator[Reference]:
    for node in draft.nodes.values():
        for part in node.with_tools():
            yield from (reference for reference, _ in part.references)
        if node.spec.region is not None:
            yield from node.spec.region.collects(node.params).values()


def _describe_retries(nodes: Sequence[PlanNode]) -> str:
    others = len(nodes) - 1
    models = f"This model and {others} other{'s' * (others > 1)} are" if others else "This model is"
    return f"{models} called again after a failure; RAGFlow then appends the new answer to the text already shown."
