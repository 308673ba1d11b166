"""Names of nodes and modules from the titles of nodes."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode

MAX_CHARS = 40

RESERVED = frozenset(
    {
        *keyword.kwlist,
        *keyword.softkwlist,
        *dir(builtins),
        *("annotations", "build_canvas", "canvas", "compat", "graph", "nodes", "os", "tests", "variables"),
    }
)
"""Names that mean something else in generated code."""

PACKAGES = frozenset({*sys.stdlib_module_names, *("pyright", "pytest", "ragflow_lg", "ruff")})
"""Packages that the generated code or its tools import."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER = re.compile(r"[^a-z0-9]+")


def python_name(text: str) -> str:
    """Return a text as a Python name in ASCII, or ``""`` if it has no letters for one.

    >>> python_name("Sort the request!"), python_name("Agent:FunnyOwls"), python_name("退款")
    ('sort_the_request', 'agent_funny_owls', '')
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = _OTHER.sub("_", _CAMEL.sub("_", plain).lower()).strip("_")[:MAX_CHARS].strip("_")
    if not any(char.isalpha() for char in name):
        return ""
    return name if name[0].isalpha() else f"node_{name}"


def name_nodes(nodes: Iterable[PlanNode]) -> Mapping[NodeId, str]:
    """Return a unique name for each node: from its title, else from its id, else from its component."""
    names: dict[NodeId, str] = {}
    taken = set(RESERVED)
    for node in nodes:
        base = python_name(node.title) or python_name(node.id) or python_name(node.spec.name) or "node"
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        names[node.id] = name
        taken.add(name)
    return names


def package_name(text: str) -> str:
    """Return the name of the package for a canvas.

    >>> package_name("Customer service"), package_name("客服"), package_name("class"), package_name("Typing")
    ('customer_service', 'canvas_graph', 'class_graph', 'typing_graph')
    """
    name = python_name(text) or "canvas_graph"
    return f"{name}_graph" if name in RESERVED or name in PACKAGES else name
