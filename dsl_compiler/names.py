"""Component ids and LangGraph node names: a reversible mapping.

LangGraph refuses ``:`` and ``|`` in node names and reserves some that begin with ``__``; most ids of real
canvases look like ``Agent:ThreeWolves``. A colon becomes a dot, which no editor writes into an id.
"""

from __future__ import annotations

import re

from ragflow_lg.base.ids import NodeId

__all__ = ["CLOSING_NODE", "ROUND_NODE", "graph_name", "node_id"]

CLOSING_NODE = "__close__"
"""Graph name of the node that ends a turn or a round; no component id maps to it."""

ROUND_NODE = "__round__"
"""Graph name of the node that runs one of several rounds side by side."""

_ESCAPED = re.compile(r"[%|.]|^_(?=_)")
_CODE = re.compile(r"%([0-9A-F]{2})")


def graph_name(id_: NodeId | str) -> str:
    """Give the LangGraph node name of a component id.

    >>> graph_name("Agent:ThreeWolves"), graph_name("a.b|c%"), graph_name("__end__")
    ('Agent.ThreeWolves', 'a%2Eb%7Cc%25', '%5F_end__')
    """
    return _ESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", id_).replace(":", ".")


def node_id(name: str) -> NodeId:
    """Give the component id of a LangGraph node name.

    >>> node_id("Agent.ThreeWolves"), node_id("a%2Eb%7Cc%25"), node_id("%5F_end__")
    ('Agent:ThreeWolves', 'a.b|c%', '__end__')
    """
    return NodeId(_CODE.sub(lambda m: chr(int(m[1], 16)), name.replace(".", ":")))
