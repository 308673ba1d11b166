"""A reversible mapping between component ids and LangGraph node names.

LangGraph rejects ``:`` and ``|`` in node names and reserves some names that begin with ``__``. In real canvases, most
ids look like ``Agent:ThreeWolves``. A colon becomes a dot, which editors never write into an id.
"""

from __future__ import annotations

import re

from ragflow_lg.base.ids import NodeId

CLOSING_NODE = "__close__"
"""Graph name of the node that ends a turn or a round. No component id maps to it."""

ROUND_NODE = "__round__"
"""Graph name of the node that runs one of several parallel rounds."""

_ESCAPED = re.compile(r"[%|.]|^_(?=_)")
_CODE = re.compile(r"%([0-9A-F]{2})")


def graph_name(id_: NodeId | str) -> str:
    """Return the LangGraph node name for a component id.

    >>> graph_name("Agent:ThreeWolves"), graph_name("a.b|c%"), graph_name("__end__")
    ('Agent.ThreeWolves', 'a%2Eb%7Cc%25', '%5F_end__')
    """
    return _ESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", id_).replace(":", ".")


def node_id(name: str) -> NodeId:
    """Return the component id for a LangGraph node name.

    >>> node_id("Agent.ThreeWolves"), node_id("a%2Eb%7Cc%25"), node_id("%5F_end__")
    ('Agent:ThreeWolves', 'a.b|c%', '__end__')
    """
    return NodeId(_CODE.sub(lambda m: chr(int(m[1], 16)), name.replace(".", ":")))
