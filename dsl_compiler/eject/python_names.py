"""Names of functions and modules from the titles of nodes."""

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
        *("query", "inputs", "files", "user_id", "payload", "chat_template_kwargs", "message_id", "earlier"),
        *("variables", "history", "messages", "turn", "state", "runtime", "config", "update", "graph", "finish"),
        *("canvas", "nodes", "tests", "build_graph", "before", "after", "answer", "os", "error", "opened"),
        *("builder", "chosen", "collected", "entered", "entry", "fields", "final", "index", "interrupt", "item"),
        *("items", "key", "maps", "outputs", "problems", "question", "result", "results", "schema", "target", "tips"),
        *("as_list", "combine_maps", "compare", "drop_duplicates", "first_value", "form_problems", "holds"),
        *("join_items", "join_text", "join_updates", "maps_of", "merge", "merge_results", "output"),
        *(
            "open_services",
            "parse_answers",
            "read_answer",
            "response_schema",
            "show",
            "sort_items",
            "split_text",
            "tip_text",
            "to_text",
            "variable",
        ),
    }
)
"""Names that mean something else in generated code, or in its state."""

PACKAGES = frozenset(
    {*sys.stdlib_module_names, *("langchain_core", "langgraph", "pyright", "pytest", "ragflow_lg", "ruff")}
)
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
        while any(form in taken for form in (name, *derived_names(name))):
            number += 1
            name = f"{base}_{number}"
        names[node.id] = name
        taken |= {name, *derived_names(name)}
    return names


def derived_names(name: str) -> tuple[str, ...]:
    """Return the names that generated code derives from a node's name."""
    return (
        f"route_{name}",
        f"join_{name}",
        f"{name}_round",
        f"{name}_items",
        f"{name}_results",
        f"{name}_round_start",
        f"next_round_of_{name}",
        f"build_body_of_{name}",
    )


def package_name(text: str) -> str:
    """Return the name of the package for a canvas.

    >>> package_name("Customer service"), package_name("客服"), package_name("class"), package_name("Typing")
    ('customer_service', 'canvas_graph', 'class_graph', 'typing_graph')
    """
    name = python_name(text) or "canvas_graph"
    return f"{name}_graph" if name in RESERVED or name in PACKAGES else name
