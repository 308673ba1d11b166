"""Look up the spec for every component, and parse its params."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType
from typing import Any, cast

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ragflow_lg.base.diagnostics import Fix
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import MAPS
from ragflow_lg.component.plan import ExceptionPolicy, PlanNode
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec, ComponentParams
from ragflow_lg.dsl.variable_references import Reference, ReferenceScope, Template
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent, enclosing
from ragflow_lg.dsl_compiler.placeholder import (
    LEGACY,
    PIPELINE,
    REPLACED,
    path_to_value,
    placeholder_node,
    placeholder_spec,
)

_INTERNAL = ("_deprecated_params", "_feeded_deprecated_params", "_is_raw_conf", "_user_feeded_params")
_COMMON_KEYS = frozenset([*_INTERNAL, "debug_inputs", "downstream", "message_history_window_size"])
"""What RAGFlow stores with every component and never reads again."""

_TOOL_KEYS = frozenset(["function_name", "meta"])
"""What it stores with every tool."""


def keys_without_effect(spec: AnySpec) -> frozenset[str]:
    """Return the keys that RAGFlow and its editor write into a component although they have no effect."""
    return _COMMON_KEYS | spec.unused | (_TOOL_KEYS if spec.tool else frozenset[str]())


def bind_components(draft: Draft, reporter: Reporter) -> Draft:
    """Look up every name, ignoring case. Unknown components get a placeholder so that all problems are reported."""
    specs: dict[str, AnySpec] = {}
    components: dict[str, RawComponent] = {}
    for id_, component in draft.components.items():
        spec = draft.catalog.get(component.name)
        if spec is None:
            spec = placeholder_spec(component.name)
            if component.name not in LEGACY:
                _report_unknown(draft, component, reporter)
        specs[id_] = spec
        components[id_] = replace(component, name=spec.name)
    return replace(draft, components=components, specs=specs)


def _report_unknown(draft: Draft, component: RawComponent, reporter: Reporter) -> None:
    message, hint = _describe_unknown(draft, component.name)
    reporter.report("component-unknown", "error", component.place("obj", "component_name"), message, hint)


def _describe_unknown(draft: Draft, name: str) -> tuple[str, str]:
    """Return the message about a component without a spec, and the hint."""
    if name in PIPELINE:
        return f"{name} prepares documents in ingestion pipelines; an agent cannot run it.", (
            "Remove it from the canvas; RAGFlow or `ragflow-lg kb add` splits documents when it adds them to a dataset."
        )
    if name in REPLACED:
        return f"{name} exists only in some versions of RAGFlow.", f"Replacement: {REPLACED[name]}."
    near = draft.catalog.near(name)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`ragflow-lg components` lists all components."
    return f"There is no component named {name!r}.", add_broken(draft.catalog, hint)


def add_broken(catalog: Registry, hint: str) -> str:
    """Return the hint, with the packages that should provide further components and cannot."""
    return " ".join([hint, *(str(broken.error) for broken in catalog.broken)])


def bind_params(draft: Draft, reporter: Reporter) -> Draft:
    """Validate all params. Components with invalid params become placeholders so that later checks can run."""
    plain = frozenset(draft.components)
    nodes: dict[NodeId, PlanNode] = {}
    for id_, component in draft.components.items():
        has_items = any(draft.specs[region.id].yields_items for region in enclosing(component, draft.components))
        scope = ReferenceScope(plain, has_items, draft.compatibility.old_values)
        nodes[NodeId(id_)] = bind_node(component, draft.specs[id_], scope, reporter)
        _check_needed(component, nodes[NodeId(id_)], reporter)
    return replace(draft, nodes=nodes)


def _check_needed(component: RawComponent, node: PlanNode, reporter: Reporter) -> None:
    """Report a node without the argument that its component needs; only a model's calls bring it along."""
    needed = node.spec.tool.needs if node.spec.tool else ""
    value = getattr(node.params, needed, None) if needed else None
    if isinstance(value, Template) and not value.source.strip():
        message = f"{node.spec.name} has no {needed}, so the node does nothing."
        hint = f'Set {needed} to a text or a reference, such as "{{sys.query}}".'
        place = component.param_place(*([needed] if needed in component.params else []))
        reporter.report("params-unsupported", "warning", place, message, hint)


def bind_node(component: RawComponent, spec: AnySpec, scope: ReferenceScope, reporter: Reporter) -> PlanNode:
    """Build the node for a component, which is a placeholder if the params are invalid."""
    raw = {key: value for key, value in component.params.items() if not _is_default(key, value, spec)}
    try:
        params = spec.params.model_validate(raw, context={"scope": scope})
    except ValidationError as error:
        for problem in error.errors(include_url=False)[:50]:
            _report(component, problem, reporter)
        return placeholder_node(component, spec, scope)
    _lint(component, spec, params, reporter)
    declared = as_map(params.outputs) or dict.fromkeys(spec.outputs.declared_by_default)
    return PlanNode(
        NodeId(component.id),
        spec,
        params,
        component.title,
        0,
        component.pointer,
        on_error=ExceptionPolicy(
            params.exception_method or "",
            params.exception_default_value,
            tuple(NodeId(target) for target in params.exception_goto),
        ),
        parent=NodeId(component.parent) if component.parent else None,
        references=tuple(_references(params, ())),
        outputs=tuple(dict.fromkeys((*spec.outputs.model_fields, *declared))),
        declared=frozenset(declared),
        extra_attempts=(params.max_retries or 0) if spec.retries and spec.effects != "writes" else 0,
        retry_delay_s=params.delay_after_error or 0.0,
        timeout_s=spec.limit_s(params),
        params_pointer=component.params_pointer,
    )


def _is_default(key: str, value: Any, spec: AnySpec) -> bool:
    """Return whether a value is null in the sense of "not set": editors write null into fields with a default."""
    if value is not None:
        return False
    field = spec.params.model_fields.get(key)
    return field is not None and not field.is_required()


def _report(component: RawComponent, problem: ErrorDetails, reporter: Reporter) -> None:
    path = path_to_value(problem["loc"])
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    value = repr(problem.get("input"))
    is_shown = problem["type"] == "missing" or value in message
    excerpt = "" if is_shown else f" It is {value if len(value) <= 60 else value[:57] + '…'}."
    name = ".".join(str(segment) for segment in path)
    message = f"{component.name}.{name}: {message[:1].lower() + message[1:]}.{excerpt}"
    hint = f"`ragflow-lg components {component.name}` shows its parameters."
    reporter.report("params-invalid", "error", component.param_place(*path), message, hint)


def _lint(component: RawComponent, spec: AnySpec, params: ComponentParams, reporter: Reporter) -> None:
    unused = keys_without_effect(spec)
    for key in params.__pydantic_extra__ or {}:
        if key not in unused and not _accepts_anything(spec):
            message = f"{spec.name} has no parameter {key!r}; the value has no effect."
            hint = reporter.nearest(spec.name, spec.params.model_fields).hint(key, "")
            fix = Fix(f"Remove {key!r}", "remove")
            reporter.report("params-unknown", "warning", component.param_place(key), message, hint, fix=fix)
    for problem in spec.lint(params):
        place = component.param_place(*problem.path)
        reporter.report(problem.code, problem.severity, place, problem.message, problem.hint)


def _accepts_anything(spec: AnySpec) -> bool:
    return spec.params.model_fields.keys() == ComponentParams.model_fields.keys()


_PLAIN = frozenset({str, int, float, bool, NoneType})
"""Types of values that contain no references."""


@cache
def _field_names(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(model.model_fields)


def _references(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[Reference, tuple[str | int, ...]]]:
    """Yield every reference in typed params, with its path. Unknown parameters are not searched."""
    entries: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Reference):
        yield value, path
    elif isinstance(value, Template):
        for reference in value.references:
            yield reference, path
    elif isinstance(value, list | tuple):
        entries = enumerate(cast("list[Any]", value))
    elif isinstance(value, MAPS):
        entries = cast("Mapping[str, Any]", value).items()
    elif isinstance(value, BaseModel):
        entries = [(name, getattr(value, name)) for name in _field_names(type(value))]
    for name, entry in entries:
        if type(entry) not in _PLAIN:
            yield from _references(entry, (*path, name))
