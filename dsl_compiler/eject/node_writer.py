"""Writes the body of one node: expressions for what it reads and returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.dsl_compiler.eject.package_model import PackageModel
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal
from ragflow_lg.dsl_compiler.eject.python_module import PythonModule


class NodeWriter:
    """Writes the body of one node into a module."""

    def __init__(self, model: PackageModel, node: PlanNode, module: PythonModule) -> None:
        self.model = model
        self.node = node
        self.module = module
        self.lines: list[str] = []
        """The statements before the outputs are returned."""

    @property
    def params(self) -> Any:
        """The parameters of the component."""
        return self.node.params

    def value(self, reference: Reference) -> Code:
        """Return an expression for the value of a reference."""
        self.module.use_public("variable" if reference.kind == "global" else "output")
        return self.model.value(reference, self.node)

    def any_value(self, value: Any) -> JsonValue | Code:
        """Return a value, or an expression for it if it is a text with references."""
        if isinstance(value, Reference):
            return self.value(value)
        if not isinstance(value, Template):
            return value
        sole = value.sole_reference
        return self.value(sole) if sole is not None else self.text(value)

    def text(self, template: Template) -> JsonValue | Code:
        """Return an expression for a text with references."""
        if not template.references:
            return "".join(str(segment) for segment in template.segments)
        self.module.use_public("join_text")
        return self.call("join_text", *(s if isinstance(s, str) else self.value(s) for s in template.segments))

    def call(self, function: str, *arguments: JsonValue | Code) -> Code:
        """Return a call with one argument a line if it is long."""
        texts = [literal(self._without_secrets(argument), 2) for argument in arguments]
        line = f"{function}({', '.join(texts)})"
        if len(line) <= 80 and "\n" not in line:
            return Code(line)
        return Code(f"{function}(\n" + "".join(f"        {text},\n" for text in texts) + "    )")

    def _without_secrets(self, value: JsonValue | Code) -> Any:
        clean = value if isinstance(value, Code) else self.model.environment.without_secrets(value, self.node.spec.name)
        if clean != value:
            self.module.use("os")
        return clean

    def outputs(self, known: Mapping[str, JsonValue | Code]) -> Code:
        """Return an expression for the outputs, with null for those that are declared only."""
        rest = {name: None for name in self.node.outputs if name not in known}
        return Code(literal({**rest, **{name: self._without_secrets(value) for name, value in known.items()}}, 1))

    def knows(self, references: Iterable[Reference]) -> bool:
        """Return whether all references name nodes that exist."""
        return all(self.model.is_known(reference, self.node) for reference in references)
