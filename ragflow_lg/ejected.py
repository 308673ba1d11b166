"""What packages of ``ragflow-lg canvas eject`` call: a canvas as Python objects, and the services that run it.

``docs/library.md`` shows a package.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ragflow_lg.services.services import Services

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.lower import CanvasApplication
    from ragflow_lg.server.settings import Settings


class Node(Struct, frozen=True, eq=False):
    """A node of a canvas."""

    id: str
    """Its name in the references of other nodes, such as ``{LLM:Desk@content}``."""
    component: Any
    """The name of a component, or a function or a tool of LangChain that the node calls."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The parameters of the component. Texts may contain references."""
    title: str = ""


class Canvas:
    """A canvas: its nodes and edges, and the variables of a new conversation."""

    def __init__(
        self, title: str, *, variables: Mapping[str, Any] | None = None, compat: Mapping[str, bool] | None = None
    ) -> None:
        """Create an empty canvas. ``compat`` names behaviours of RAGFlow, as the section ``[compat]`` does."""
        self.title = title
        self.variables = variables or {}
        self.compat = compat or {}
        self.nodes: list[Node] = []
        self._parents: dict[str, str] = {}
        self._edges: list[tuple[str, str]] = []

    def add_node(self, node: Node, *, inside: Node | None = None) -> None:
        """Add a node, to the canvas or to the body of a Loop or Iteration."""
        self.nodes.append(node)
        if inside is not None:
            self._parents[node.id] = inside.id

    def add_edge(self, source: Node, target: Node) -> None:
        """Connect two nodes. After a Switch or a Categorize, its params choose among the targets."""
        self._edges.append((source.id, target.id))

    def document(self) -> dict[str, Any]:
        """Return the canvas as RAGFlow writes it."""
        variables = {key.removeprefix("env."): {"value": value} for key, value in self.variables.items()}
        return {
            "title": self.title,
            "dsl": {
                "components": {node.id: self._component(node) for node in self.nodes},
                "globals": {key: value for key, value in self.variables.items() if key.startswith("sys.")},
                "variables": {key: value for key, value in variables.items() if not key.startswith("sys.")},
                "compat": dict(self.compat),
                "graph": {"nodes": [{"id": node.id, "data": {"name": node.title}} for node in self.nodes], "edges": []},
            },
        }

    def _component(self, node: Node) -> dict[str, Any]:
        from ragflow_lg.server.assembly.library import name_of_tool

        name = node.component if isinstance(node.component, str) else name_of_tool(node.component)
        downstream = [target for source, target in self._edges if source == node.id]
        parent = {"parent_id": self._parents[node.id]} if node.id in self._parents else {}
        return {"obj": {"component_name": name, "params": dict(node.params)}, "downstream": downstream, **parent}

    def compile(self, **options: Any) -> CanvasApplication:
        """Return the graph of LangGraph; ``options`` are those of `ragflow_lg.load_canvas`.

        Raises:
            CompileError: if the canvas has errors.
        """
        from ragflow_lg.library import load_canvas

        tools = {id(node.component): node.component for node in self.nodes if not isinstance(node.component, str)}
        return load_canvas(self.document(), tools=[*tools.values(), *options.pop("tools", ())], **options)


@asynccontextmanager
async def open_services(
    *, model: str = "", settings: Settings | None = None, recording: Path | None = None
) -> AsyncGenerator[Services]:
    """Open services for ``Canvas.compile(services=…)``: models, datasets, tools, files.

    ``model`` replaces every model; ``demo`` needs no settings. ``settings`` are by default those of ``ragflow-lg.toml``
    and the environment. A ``recording`` of a run answers instead of the services.

    Raises:
        SettingsError: if the settings cannot be read.
        CassetteError: if the recording cannot be read.
    """
    from ragflow_lg.server.assembly.open_services import open_services as open_all
    from ragflow_lg.server.assembly.recordings import open_recording
    from ragflow_lg.server.settings import load_settings

    chosen = settings or load_settings(None)
    with open_recording(replay=recording or "") as tape:
        async with open_all(chosen, model=model, recording=tape) as services:
            yield services
