import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.ids import NodeId
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan, Region
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.drawing import Sketch, sketch_plan

DRAWINGS = Path(__file__).parents[2] / "fixtures" / "drawings"
CATALOG = load_catalog()


def support_sketch() -> Sketch:
    """Return a sketch with routes, an error edge, a back edge and hostile titles."""
    return sketch_plan(_compile(json.loads((DRAWINGS / "support.json").read_text(encoding="utf-8"))))


def sketch_of(edges: Iterable[tuple[str, str]], titles: Mapping[str, str] | None = None) -> Sketch:
    """Return a sketch of Messages with these edges; ``begin`` is the entry."""
    return sketch_plan(plan_of(edges, titles))


def plan_of(edges: Iterable[tuple[str, str]], titles: Mapping[str, str] | None = None) -> Plan:
    """Return a plan of Messages with these edges; ``begin`` is the entry."""
    downstream: dict[str, list[str]] = {"begin": []}
    for source, target in edges:
        downstream.setdefault(source, []).append(target)
        downstream.setdefault(target, [])
    components: dict[str, Any] = {
        id_: {
            "obj": {"component_name": "Message", "params": {"content": ["x"]}}
            if id_ != "begin"
            else {"component_name": "Begin", "params": {}},
            "downstream": targets,
        }
        for id_, targets in downstream.items()
    }
    nodes = [{"id": id_, "data": {"name": title}} for id_, title in (titles or {}).items()]
    return _compile({"components": components, "graph": {"nodes": nodes, "edges": []}})


def _compile(document: Any) -> Plan:
    plan, diagnostics = check_canvas(document, CATALOG)
    assert plan is not None, diagnostics
    return plan


def sketch_with_region() -> Sketch:
    """Return a sketch where ``loop`` repeats ``item``, ``first`` and ``second``."""
    plan = plan_of([("begin", "loop"), ("loop", "end"), ("begin", "item"), ("item", "first"), ("first", "second")])
    owner, item, first, second = map(NodeId, ("loop", "item", "first", "second"))
    nodes = {
        id_: replace(node, parent=owner if id_ in (item, first, second) else None) for id_, node in plan.nodes.items()
    }
    begin = NodeId("begin")
    nodes[begin] = replace(nodes[begin], downstream=(owner,))
    return sketch_plan(replace(plan, nodes=nodes, regions={owner: Region(owner, item, (first, second), (first,))}))
