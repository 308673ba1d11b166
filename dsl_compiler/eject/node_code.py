"""Which nodes are written out, because a few lines of Python say what they do.

Each writer returns an expression for the outputs, or None if the node uses something that only its component can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ragflow_lg.dsl_compiler.eject.data_code import write_list, write_maps
from ragflow_lg.dsl_compiler.eject.form_code import write_form
from ragflow_lg.dsl_compiler.eject.node_writer import NodeWriter
from ragflow_lg.dsl_compiler.eject.python_literals import Code
from ragflow_lg.dsl_compiler.eject.switch_code import write_choice
from ragflow_lg.dsl_compiler.eject.text_code import write_first_values, write_message, write_text

Writer: TypeAlias = Callable[[NodeWriter], Code | None]


def write_nothing(writer: NodeWriter) -> Code | None:
    """Write a node without outputs."""
    return writer.outputs({})


WRITERS: Mapping[str, Writer] = {
    "Message": write_message,
    "StringTransform": write_text,
    "Switch": write_choice,
    "VariableAggregator": write_first_values,
    "ListOperations": write_list,
    "DataOperations": write_maps,
    "UserFillUp": write_form,
    "ExitLoop": write_nothing,
}
"""By the name of the component."""


def write_outputs(writer: NodeWriter) -> Code | None:
    """Return an expression for the outputs of a node, or None if its component has to run it."""
    node = writer.node
    if node.is_skipped:
        return writer.outputs({})
    write = WRITERS.get(node.spec.name)
    if write is None or node.on_error.method:
        return None
    references = [reference for reference, _ in node.references]
    is_lenient = write is write_first_values
    return write(writer) if is_lenient or writer.knows(references) else None
