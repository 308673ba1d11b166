"""Switch, written out."""

from __future__ import annotations

from typing import Any

from ragflow_lg.dsl_compiler.eject.node_writer import NodeWriter
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal


def write_choice(writer: NodeWriter) -> Code | None:
    """Write a Switch as if, elif and else."""
    keyword = "if"
    for case in writer.params.conditions:
        if condition := _condition(writer, case):
            writer.lines += [f"{keyword} {condition}:", f"    chosen = {literal(list(case.to))}"]
            keyword = "elif"
    otherwise = f"chosen = {literal(list(writer.params.end_cpn_ids))}"
    writer.lines += ["else:", f"    {otherwise}"] if keyword == "elif" else [otherwise]
    writer.module.use(f"{writer.model.package}.canvas", "CANVAS")
    return writer.outputs({"next": Code("CANVAS.titles(chosen)"), "_next": Code("chosen")})


def _condition(writer: NodeWriter, case: Any) -> str:
    tests = [_test(writer, item) for item in case.items if item.cpn_id is not None]
    joiner = " and " if (case.logical_operator or "and").lower() == "and" else " or "
    line = joiner.join(tests)
    if len(line) <= 72 or len(tests) < 2:
        return line
    return "(\n" + f"\n       {joiner.lstrip()}".join([f"        {tests[0]}", *tests[1:]]) + "\n    )"


def _test(writer: NodeWriter, item: Any) -> str:
    value = writer.value(item.cpn_id)
    if item.operator == "empty":
        return f"not {value}"
    if item.operator == "not empty":
        return str(value)
    writer.module.use_public("compare")
    return str(writer.call("compare", value, item.operator, writer.any_value(item.value)))
