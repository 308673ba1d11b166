"""A graph in which some nodes wait for those of their predecessors that can still arrive.

LangGraph's edges from a list of nodes wait for all of them, but a Switch may skip some. A *join* knows the nodes before
it, and what each of them has chosen in this turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, cast, get_type_hints

from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.langgraph_internals import add_trigger
from ragflow_lg.dsl.joins import JoinRegion
from ragflow_lg.dsl_compiler.langgraph_app.gate import RESET, JoinGate
from ragflow_lg.ejected.turn_state import StateUpdate, TurnState
from ragflow_lg.services.services import Services

S = TypeVar("S", bound=TurnState)


class Join(JoinGate):
    """The channel of a join: what the nodes before it have chosen."""

    __slots__ = ("watched",)

    def __init__(
        self, node: str, predecessors: Sequence[str], between: Mapping[str, Sequence[str]], watched: Sequence[str]
    ) -> None:
        """Create the channel for a node.

        Args:
            node: The node that waits.
            predecessors: The nodes with an edge to it.
            between: The nodes between the last one that always runs and the join, each with its predecessors.
            watched: The nodes whose choices decide which predecessors can still arrive.
        """
        nodes = tuple((NodeId(name), tuple(map(NodeId, before))) for name, before in between.items())
        known = frozenset(map(NodeId, watched))
        super().__init__(JoinRegion(NodeId(node), tuple(map(NodeId, predecessors)), nodes, known))

    def copy(self) -> Join:
        """Return an independent copy."""
        other = self._empty()
        other.seen, other.is_ready = self.seen, self.is_ready
        return other

    def from_checkpoint(self, checkpoint: Any) -> Join:
        """Build a channel from a stored value."""
        other = self._empty()
        if isinstance(checkpoint, Mapping):
            stored = cast("Mapping[str, Any]", checkpoint)
            other.seen, other.is_ready = dict(stored["seen"]), bool(stored["ready"])
        return other

    def _empty(self) -> Join:
        other = Join.__new__(Join)
        JoinGate.__init__(other, self.region)
        other.key = self.key
        return other

    def update(self, values: Sequence[dict[str, Any]]) -> bool:
        """Add what nodes have chosen in one superstep. Return whether the channel changed."""
        is_reset = any("" in value for value in values)
        choices = [{node: chosen for node, chosen in value.items() if node} for value in values]
        return super().update([RESET, *choices] if is_reset else choices)


class JoiningGraph(StateGraph[S, Services, S, S], Generic[S]):
    """A ``StateGraph`` whose state has a `Join` for each node that waits. Use it like a ``StateGraph``."""

    def __init__(self, state_schema: type[S], context_schema: type[Services], *, first: str) -> None:
        """Create an empty graph. ``first`` is the node that begins a turn or a round."""
        super().__init__(state_schema, context_schema)
        self._first = first
        self._routes: dict[str, Callable[[Any], Sequence[str]]] = {}
        hints = get_type_hints(state_schema, include_extras=True)
        marks = {key: part for key, hint in hints.items() for part in getattr(hint, "__metadata__", ())}
        self._joins = {key: part for key, part in marks.items() if isinstance(part, Join)}
        self._waiting = {str(join.region.join): key for key, join in self._joins.items()}

    def add_node(self, node: Any, action: Any = None, **options: Any) -> Any:
        """Add a node. Its choices are reported to the joins that depend on them."""
        return super().add_node(node, partial_node(partial(self._visit, node, action)), **options)

    def add_edge(self, start_key: str | list[str], end_key: str) -> Any:
        """Add an edge; an edge to a join is a part of the join."""
        return self if end_key in self._waiting else super().add_edge(start_key, end_key)

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Any:
        """Add the edges that a function chooses."""
        self._routes[source] = path
        direct = [name for name in cast("Sequence[str]", path_map or ()) if name not in self._waiting]

        def choose(state: Any) -> list[str]:
            return [name for name in path(state) if name not in self._waiting]

        return super().add_conditional_edges(source, choose, [*dict.fromkeys([*direct, END])])

    def compile(self, *arguments: Any, **options: Any) -> CompiledStateGraph[S, Services, S, S]:
        """Return the graph, in which joins are triggered by their channels."""
        graph = super().compile(*arguments, **options)
        for name, key in self._waiting.items():
            if name in self.nodes:
                add_trigger(graph, name, key)
        return graph.validate()

    async def _visit(self, name: str, action: Callable[..., Any], state: Any, runtime: Runtime[Any]) -> Any:
        takes_runtime = len(inspect.signature(action).parameters) > 1
        result = await (action(state, runtime) if takes_runtime else action(state))
        update: StateUpdate = dict((result.update if isinstance(result, Command) else result) or {})
        chosen = self._choice(name, state, update, result)
        joins = {key: join for key, join in self._joins.items() if str(join.region.join) in self.nodes}
        for key, join in joins.items():
            token = {name: chosen} if name in join.region.watched else {}
            if name == self._first or token:
                update[key] = {**(RESET if name == self._first else {}), **token}
        if not isinstance(result, Command):
            return update
        return Command(update=update, goto=[target for target in chosen or () if target not in self._waiting])

    def _choice(self, name: str, state: Any, update: StateUpdate, result: Any) -> Sequence[str] | None:
        """Return the nodes that a node has chosen, or None if it does not choose."""
        if isinstance(result, Command):
            goto: Any = result.goto
            return [goto] if isinstance(goto, str) else list(cast("Sequence[str]", goto))
        route = self._routes.get(name)
        return None if route is None else list(route({**state, **update}))


def partial_node(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the signature that LangGraph looks for."""

    async def run(state: Any, runtime: Runtime[Any]) -> Any:
        return await function(state, runtime)

    return run
