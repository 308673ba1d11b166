"""What the packages that ``ragflow-lg eject`` writes call: components, turns, and RAGFlow's rules for values.

The implementation is the one that runs canvases; nothing is copied. ``docs/eject.md`` shows a generated package.
"""

from ragflow_lg.base.errors import ComponentError, NodeFailedError
from ragflow_lg.base.values import to_text
from ragflow_lg.components.data_operations import combine_maps, maps_of
from ragflow_lg.components.list_operations import drop_duplicates, sort_items
from ragflow_lg.dsl.forms import form_problems, parse_answers, response_schema
from ragflow_lg.dsl.loop_operators import holds
from ragflow_lg.ejected.ejected_canvas import Canvas, Component, Node
from ragflow_lg.ejected.joining_graph import Join, JoiningGraph
from ragflow_lg.ejected.opened_services import open_services
from ragflow_lg.ejected.turn_state import Outputs, StateUpdate, TurnState, merge, output, variable
from ragflow_lg.ejected.written_values import (
    as_list,
    collected,
    compare,
    first_value,
    join_items,
    join_text,
    join_updates,
    read_answer,
    show,
    split_text,
    tip_text,
)
from ragflow_lg.services.services import Services

__all__ = [
    "Canvas",
    "Component",
    "ComponentError",
    "Join",
    "JoiningGraph",
    "Node",
    "NodeFailedError",
    "Outputs",
    "Services",
    "StateUpdate",
    "TurnState",
    "as_list",
    "collected",
    "combine_maps",
    "compare",
    "drop_duplicates",
    "first_value",
    "form_problems",
    "holds",
    "join_items",
    "join_text",
    "join_updates",
    "maps_of",
    "merge",
    "open_services",
    "output",
    "parse_answers",
    "read_answer",
    "response_schema",
    "show",
    "sort_items",
    "split_text",
    "tip_text",
    "to_text",
    "variable",
]
