"""Definite assignment: references whose node may not have run when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import ERROR, PlanNode
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.analysis.activity import Activity, Table
from ragflow_lg.dsl_compiler.analysis.canvas import AnalysedCanvas
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.rounds import keeps_values

Path = tuple[str | int, ...]
Reads = Mapping[Path, list[tuple[Reference, Path]]]


def check_assignment(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Warn about references that are empty on some path from the start of the scope to the reader.

    References in the same text, or in the same list of candidates, are alternatives: it is enough that one of them has
    a value. Tests for emptiness, values that another node assigns, and readers on cycles are left out.
    """
    for node in canvas.draft.nodes.values():
        activity = canvas.activities.get(node.parent)
        if activity is None or not activity.is_known(node.id):
            continue
        for reads in _group_reads(node).values():
            problem = _find_path(canvas, activity, node, [reference for reference, _ in reads])
            if problem is not None:
                number, steps, has_others = problem
                _report(canvas, node, reads[number], steps, reporter, has_others)


def _report(
    canvas: AnalysedCanvas,
    node: PlanNode,
    read: tuple[Reference, Path],
    steps: list[str],
    reporter: Reporter,
    has_others: bool,
) -> None:
    reference, place = read
    raw = canvas.draft.components[node.id]
    what = f"{reference.text!r}, like its alternatives here," if has_others else f"{reference.text!r}"
    value = "only the value of an earlier round" if keeps_values(canvas.draft, node) else "no value"
    message = f"{what} has {value} if the turn goes {' → '.join(steps)}."
    hint = "Connect that path to another node, or give the value a substitute with a VariableAggregator."
    reporter.report("reference-may-be-unset", "warning", raw.param_place(*place), message, hint)


def _group_reads(node: PlanNode) -> Reads:
    """Return the output references by the text or list of candidates that contains them."""
    groups: dict[Path, list[tuple[Reference, Path]]] = {}
    if node.spec.kind == "route" and not any(node.spec.requires(node.params)):
        return groups  # a Switch may test whether a branch has run
    for reference, path in node.references:
        if reference.kind == "output" and reference.key != ERROR:
            groups.setdefault(_alternatives_path(node, path), []).append((reference, path))
    return groups


def _alternatives_path(node: PlanNode, path: Path) -> Path:
    """Return the path of the value within which references are alternatives to each other."""
    return path[:2] if len(path) > 1 and path[0] == "groups" else path[:1]


def _find_path(
    canvas: AnalysedCanvas, activity: Activity, node: PlanNode, references: Iterable[Reference]
) -> tuple[int, list[str], bool] | None:
    """Return the number of a reference without a value, a path without it, and whether it has alternatives.

    On the path, the alternatives have no values either.
    """
    unset = -1
    first = -1
    reads = list(_outer_reads(canvas, activity, node, references))
    conditional: list[int] = []
    nodes = [read for read in reads if read is not None]
    table = activity.table(node.id, *nodes)
    if table is None or not nodes:
        return None
    for number, read in enumerate(reads):
        if read is None:
            continue
        missing = table.active[node.id] & ~activity.has_value(table, read)
        if missing:
            conditional.append(number)
            first = number if first < 0 else first
            unset &= missing
    unset = unset & table.active[node.id] if conditional else 0
    if not unset or _is_excluded(table, activity, node, [reads[n] for n in conditional]):
        return None
    combination = (unset & -unset).bit_length() - 1
    if activity.may_be_impossible(table, node.id):
        return None
    return first, activity.path(table, combination, node.id), len(conditional) > 1


def _outer_reads(
    canvas: AnalysedCanvas, activity: Activity, node: PlanNode, references: Iterable[Reference]
) -> Iterator[NodeId | None]:
    """Yield the node that each reference reads if it is in the reader's scope and runs before the reader."""
    for reference in references:
        read = NodeId(reference.node)
        is_judged = (
            read != node.id
            and activity.is_known(read)
            and activity.precedes(read, node.id)
            and f"{reference.node}@{reference.key}" not in canvas.assigned
        )
        yield read if is_judged else None


def _is_excluded(table: Table, activity: Activity, node: PlanNode, reads: Iterable[NodeId | None]) -> bool:
    """Return whether no value can ever be set when the node runs; `check_references` reports that."""
    return not any(table.active[node.id] & activity.has_value(table, read) for read in reads if read is not None)
