"""The compiler: parse the source, run the passes, lower the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import CompileError
from ragflow_lg.base.lenient_values import as_map, as_text
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.analysis import ANALYSES, AnalysedCanvas, Analysis
from ragflow_lg.dsl_compiler.deployment import CanvasSource, Deployment, NoDeployment
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, Nesting
from ragflow_lg.dsl_compiler.passes import PASSES
from ragflow_lg.dsl_compiler.passes.components_from_graph import with_components
from ragflow_lg.dsl_compiler.passes.upgrade_document import upgrade_document
from ragflow_lg.dsl_compiler.source import MAX_BYTES, locate, read_source
from ragflow_lg.dsl_compiler.upgrade import MAX_COMPONENTS, Upgrade, count_components, is_old_canvas, upgrade_canvas

if TYPE_CHECKING:
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas  # this import loads LangGraph

Source = str | bytes | Mapping[str, Any]
"""A canvas: a file's text or bytes, or a JSON object."""


def compile_canvas(source: Source, catalog: Registry, deployment: Deployment | None = None) -> CompiledCanvas:
    """Compile a canvas to a LangGraph graph.

    Without a ``deployment``, all tools are permitted and there are no other canvases.

    Raises:
        CompileError: if any diagnostic is an error. The exception contains all diagnostics.
    """
    from ragflow_lg.dsl_compiler.lower import lower_plan  # LangGraph is not needed before this point

    plan, diagnostics = _plan_if_valid(*_examine(source, catalog, deployment))
    if plan is None:
        raise CompileError(diagnostics)
    return lower_plan(plan)


def check_canvas(
    source: Source, catalog: Registry, deployment: Deployment | None = None
) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """Return the plan (None if the canvas cannot run) and all diagnostics in document order.

    They include the findings of `ragflow_lg.dsl_compiler.analysis`, for which a compilation does not wait.
    """
    checked = inspect_canvas(source, catalog, deployment)
    return checked.plan, checked.diagnostics


class CheckedCanvas(NamedTuple):
    """What the compiler knows about a canvas."""

    plan: Plan | None
    """None if the canvas cannot run."""
    diagnostics: tuple[Diagnostic, ...]
    """All diagnostics in document order."""
    draft: Draft | None
    """The canvas after the last pass that could read it; None if none could."""

    def valid_plan(self) -> Plan:
        """Return the plan.

        Raises:
            CompileError: if the canvas cannot run.
        """
        if self.plan is None:
            raise CompileError(self.diagnostics)
        return self.plan


def inspect_canvas(source: Source, catalog: Registry, deployment: Deployment | None = None) -> CheckedCanvas:
    """Check a canvas as `check_canvas` does. Return the draft as well, for tools that show what the compiler knows."""
    draft, diagnostics = _examine(source, catalog, deployment, analyses=ANALYSES)
    return CheckedCanvas(*_plan_if_valid(draft, diagnostics), draft)


def upgrade_source(source: Source, catalog: Registry) -> Upgrade:
    """Return a canvas from before RAGFlow 0.20 as one of today, in its template's wrapper if it has one.

    A canvas of today is returned as it is, without changes.

    Raises:
        CompileError: if the source is not a JSON object or is too large.
    """
    reporter = Reporter()
    value, text = read_source(source, reporter)
    draft = _parse(value, catalog, reporter)
    if draft is None:
        raise CompileError(add_positions(reporter.diagnostics, text))
    wrapper = dict(as_map(value))
    old = with_components(draft.document)
    if not is_old_canvas(old, catalog):
        return Upgrade(wrapper, ())
    if count_components(old) > MAX_COMPONENTS:
        upgrade_document(draft, reporter)
        raise CompileError(add_positions(reporter.diagnostics, text))
    upgrade = upgrade_canvas(old, catalog)
    document = {key: entry for key, entry in upgrade.document.items() if entry is not None}
    return Upgrade({**wrapper, "dsl": document} if draft.base else document, upgrade.changes)


def read_components(source: Source, catalog: Registry) -> tuple[Draft | None, tuple[Diagnostic, ...], str]:
    """Return a canvas with its components in their current form, the diagnostics without positions, and the text."""
    draft, text, reporter = read_document(source, catalog)
    if draft is not None:
        for run in PASSES[0]:
            draft = run(draft, reporter)
    return draft, reporter.diagnostics, text


def read_document(source: Source, catalog: Registry) -> tuple[Draft | None, str, Reporter]:
    """Return a canvas before the first pass (None if the source is none), its text, and what was reported."""
    reporter = Reporter()
    value, text = read_source(source, reporter)
    return _parse(value, catalog, reporter), text, reporter


def run_passes(draft: Draft, reporter: Reporter) -> Draft:
    """Run all passes, or only the first group if it reports errors."""
    documents, *rest = PASSES
    for run in documents:
        draft = run(draft, reporter)
    if reporter.has_errors:
        return draft
    for group in rest:
        for run in group:
            draft = run(draft, reporter)
    return draft


def _plan_if_valid(
    draft: Draft | None, diagnostics: tuple[Diagnostic, ...]
) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    has_errors = any(d.severity == "error" for d in diagnostics)
    return (None if draft is None or has_errors else _build_plan(draft)), diagnostics


def _examine(
    source: Source,
    catalog: Registry,
    deployment: Deployment | None,
    nesting: Nesting | None = None,
    *,
    analyses: Sequence[Analysis] = (),
) -> tuple[Draft | None, tuple[Diagnostic, ...]]:
    deployment = deployment or NoDeployment()

    def check(inner: CanvasSource, nesting: Nesting) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
        return _plan_if_valid(*_examine(inner.content, catalog, inner.deployment, nesting))

    reporter = Reporter()
    value, text = read_source(source, reporter, min(MAX_BYTES, deployment.limits.canvas_bytes))
    nesting = nesting or Nesting(check, ((deployment.key, "this canvas"),))
    draft = _parse(value, catalog, reporter)
    if draft is not None:
        draft = run_passes(replace(draft, deployment=deployment, nesting=nesting), reporter)
    if draft is not None and not reporter.has_errors:
        canvas = AnalysedCanvas(draft)
        for analyse in analyses:
            analyse(canvas, reporter)
    return draft, add_positions(reporter.diagnostics, text)


def _parse(value: Any, catalog: Registry, reporter: Reporter) -> Draft | None:
    """Return the canvas inside a template."""
    if reporter.has_errors:
        return None
    if not isinstance(value, Mapping):
        message = "The file is not a JSON object."
        reporter.report("document-shape", "error", "", message, "A canvas is a single JSON object.")
        return None
    wrapper = as_map(value)
    inner = wrapper.get("dsl")
    if "dsl" not in wrapper or "components" in wrapper:
        return Draft(wrapper, "", catalog, _title(wrapper))
    if isinstance(inner, str):
        inner = _read_inner(inner, reporter)
    if not isinstance(inner, Mapping):
        if not reporter.has_errors:
            reporter.report("document-shape", "error", "/dsl", '"dsl" should be an object.', "Export the canvas again.")
        return None
    category, compat = as_text(wrapper.get("canvas_category")), wrapper.get("compat")
    return Draft(as_map(inner), "/dsl", catalog, _title(wrapper), category, compat)


def _read_inner(text: str, reporter: Reporter) -> Any:
    """Read a canvas that its wrapper stores as a string. Messages give the line and column within that string."""
    inner = Reporter()
    value, _ = read_source(text, inner)
    for diagnostic in inner.diagnostics:
        position = f' (line {diagnostic.line}, column {diagnostic.column} of the text of "dsl")'
        message = diagnostic.message.rstrip(".") + position + "." if diagnostic.line else diagnostic.message
        reporter.report(diagnostic.code, diagnostic.severity, "/dsl", message, diagnostic.hint)
    return value


def _title(wrapper: Mapping[str, Any]) -> str:
    title = wrapper.get("title")
    names = as_map(title)
    return as_text(title) or as_text(names.get("en")) or next((t for t in names.values() if isinstance(t, str)), "")


def _build_plan(draft: Draft) -> Plan:
    return Plan(
        draft.title,
        draft.entry,
        draft.nodes,
        draft.globals,
        joins=draft.joins,
        messages=draft.messages,
        regions=draft.regions,
        cyclic=draft.cyclic,
        form=draft.form,
        compatibility=draft.compatibility,
    )


def add_positions(diagnostics: tuple[Diagnostic, ...], text: str) -> tuple[Diagnostic, ...]:
    """Add lines and columns to the diagnostics that lack them, and sort all by them."""
    if not text or any(d.code == "json-invalid" and not d.pointer for d in diagnostics):
        return diagnostics
    positions = locate(text, [d.pointer for d in diagnostics])
    positioned = [d if d.line else d._replace(**positions[d.pointer]._asdict()) for d in diagnostics]
    return tuple(sorted(positioned, key=lambda d: (d.line, d.column)))
