"""The function that builds a graph: its nodes and edges."""

from __future__ import annotations

from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl_compiler.eject.flow_shape import FlowShape, forward_targets, is_commanding
from ragflow_lg.dsl_compiler.eject.package_model import PackageModel
from ragflow_lg.dsl_compiler.eject.python_literals import literal, quoted
from ragflow_lg.dsl_compiler.eject.python_module import PythonModule


class GraphCode:
    """Writes the statements that build a graph."""

    def __init__(self, model: PackageModel, module: PythonModule, shape: FlowShape, function: str) -> None:
        self.model = model
        self.module = module
        self.shape = shape
        self.function_name = function
        self.lines: list[str] = []

    def add_node(self, name: str, *, is_local: bool = False, is_deferred: bool = False) -> None:
        """Add a node whose function is in its own module, or in this one."""
        if not is_local:
            self.module.use(f"{self.model.package}.nodes.{name}", name)
        self.lines.append(f"builder.add_node({quoted(name)}, {name}{', defer=True' if is_deferred else ''})")

    def add_nodes(self) -> None:
        """Add all nodes."""
        for node in self.shape.nodes:
            self.add_node(self.model.name(node.id))

    def add_edges(self, round_node: str = "", *, leaves_at_exit: bool = False) -> None:
        """Add the edges; ``round_node`` begins the next round of a region."""
        for source, target in self.shape.static_edges():
            self.lines.append(f"builder.add_edge({self.model.quoted_name(source)}, {self.model.quoted_name(target)})")
        for join, predecessors in self.shape.waiting.items():
            names = literal([self.model.name(id_) for id_ in predecessors])
            self.lines.append(f"builder.add_edge({names}, {self.model.quoted_name(join)})")
        for node in self.shape.nodes:
            if node.routes and not is_commanding(node):
                self._add_routes(node, round_node)
            elif round_node and not is_commanding(node) and not self.shape.successors[node.id]:
                leaves = node.spec.kind == "region_exit" and leaves_at_exit
                target = "END" if leaves else quoted(round_node)
                if leaves:
                    self.module.use("langgraph.graph", "END")
                self.lines.append(f"builder.add_edge({self.model.quoted_name(node.id)}, {target})")

    def _add_routes(self, node: PlanNode, round_node: str) -> None:
        name = self.model.name(node.id)
        self.module.use(f"{self.model.package}.nodes.{name}", f"route_{name}")
        targets = forward_targets(self.model.plan, node, (t for route in node.routes for t in route.targets))
        names = literal([*(self.model.name(t) for t in targets), *([round_node] if round_node else [])])
        self.lines.append(f"builder.add_conditional_edges({quoted(name)}, route_{name}, {names})")

    def function(self, summary: str, first: str) -> list[str]:
        """Return the function; ``first`` is the node that begins a turn or a round."""
        self.module.use_public("Services")
        kind, create = "StateGraph[State, Services, State, State]", "StateGraph(State, context_schema=Services)"
        if self.shape.gated:
            self.module.use_public("JoiningGraph")
            kind, create = "JoiningGraph[State]", f"JoiningGraph(State, Services, first={quoted(first)})"
        else:
            self.module.use("langgraph.graph", "StateGraph")
        return [
            f"def {self.function_name}() -> {kind}:",
            f'    """{summary}"""',
            f"    builder = {create}",
            *(f"    {line}" for line in self.lines),
            "    return builder",
        ]
