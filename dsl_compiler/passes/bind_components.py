"""Look up the spec for every component."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.component.spec import AnySpec
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.known_components import LEGACY, NOT_YET, PIPELINE, REPLACED
from ragflow_lg.dsl_compiler.placeholder import placeholder_spec


def bind_components(draft: Draft, reporter: Reporter) -> Draft:
    """Look up every name, ignoring case. Unknown components get a placeholder so that all problems are reported."""
    known = {name.lower(): name for name in NOT_YET}
    specs: dict[str, AnySpec] = {}
    components: dict[str, RawComponent] = {}
    for id_, component in draft.components.items():
        spec = draft.catalog.get(component.name)
        if spec is None:
            planned = known.get(component.name.lower())
            spec = placeholder_spec(planned or component.name, is_ready=planned is None)
            if planned is None and component.name not in LEGACY:
                _report_unknown(draft, component, reporter)
        specs[id_] = spec
        components[id_] = replace(component, name=spec.name)
    return replace(draft, components=components, specs=specs)


def _report_unknown(draft: Draft, component: RawComponent, reporter: Reporter) -> None:
    message, hint = _describe_unknown(draft, component.name)
    reporter.report(
        "component-unknown",
        "error",
        extend_pointer(component.pointer, ["obj", "component_name"]),
        message,
        hint=hint,
        component=component,
    )


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
    return f"There is no component named {name!r}.", hint
