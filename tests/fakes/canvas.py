"""Small canvases for tests."""

import re
from typing import Any

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl_compiler import check_canvas

CATALOG = load_catalog()


def node(name: str, params: dict[str, Any] | None = None, downstream: Any = (), **more: Any) -> dict[str, Any]:
    """Return a component of a document."""
    return {"obj": {"component_name": name, "params": params or {}}, "downstream": list(downstream), **more}


def text(downstream: Any = (), script: str = "x", **more: Any) -> dict[str, Any]:
    """Return a StringTransform, the cheapest node."""
    return node("StringTransform", {"method": "merge", "script": script}, downstream, **more)


def canvas(components: dict[str, Any], first: Any = None, **more: Any) -> dict[str, Any]:
    """Return a document; Begin leads to ``first``, or else to the first component."""
    begin = {} if "begin" in components else {"begin": node("Begin", {}, first or [next(iter(components))])}
    return {"components": {**begin, **components}, **more}


def switch(to: Any, otherwise: Any, operator: str = "not empty", reference: str = "sys.query") -> dict[str, Any]:
    """Return a Switch with one case."""
    condition = {"items": [{"cpn_id": reference, "operator": operator, "value": ""}], "to": to}
    return node("Switch", {"conditions": [condition], "end_cpn_ids": otherwise})


def plan_of(document: Any) -> Plan:
    """Return the plan of a canvas without errors."""
    plan, diagnostics = check_canvas(document, CATALOG)
    assert plan is not None, [str(d) for d in diagnostics]
    return plan


def diagnostics_of(document: Any, code: str) -> list[Diagnostic]:
    """Return the diagnostics with a code."""
    return [d for d in check_canvas(document, CATALOG)[1] if d.code == code]


def assert_findings(document: Any, code: str, *patterns: str) -> None:
    """Check that the lines ``severity node pointer: message hint`` of the diagnostics with a code have the patterns."""
    lines = [f"{d.severity} {d.node} {d.pointer}: {d.message} {d.hint}" for d in diagnostics_of(document, code)]
    assert len(lines) == len(patterns), lines
    assert [line for line, pattern in zip(lines, patterns, strict=True) if not re.search(pattern, line)] == []
