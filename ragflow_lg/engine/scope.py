"""One entry into a region: what its body sees, how its rounds begin and end, what it leaves behind.

A region is a node outside and a graph inside. The graph keeps only what the body writes; everything around is
read through a `Scope`, which the region's node makes anew whenever it runs, so that nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ragflow_lg.base.append_log import FrozenList, append_entry, read_entries
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import Round, RunContext
from ragflow_lg.component.events import EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import ERROR, Region
from ragflow_lg.component.spec import RegionRules
from ragflow_lg.component.state import join_outputs, look_up, merge, merge_outputs, merge_turn, output_patch
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.engine.node import NodeProgram, attempt, failed, may_start, next_of, tell, update_of, visit_item

__all__ = ["RegionProgram", "Scope", "Step", "visit_region"]

Write = Callable[[EngineEvent], None]


class RegionProgram(Struct, frozen=True):
    """A region with everything about it that is known before a run."""

    owner: NodeProgram
    region: Region
    rules: RegionRules[Any, Any]
    item: NodeProgram | None
    start: tuple[str, ...]
    """Graph names of the first body nodes that are entered directly."""
    gates: tuple[str, ...]
    """All gate channels of the body."""
    entry_gates: tuple[str, ...]
    """Gates that hear of the entry, where there is no item node to report to them."""
    inside: frozenset[str]
    """Every node within the region, those of inner regions too."""
    collects: Mapping[str, Reference]
    """What is round_update at the end of each round, by output name."""
    collected_nodes: frozenset[str]
    """The nodes whose values those are."""
    keeps_items: bool
    """Whether the list could change while the region runs, so that it has to be stored at entry."""

    @property
    def max_concurrency(self) -> int:
        """How many rounds may run at the same time."""
        return self.rules.max_concurrency(self.owner.node.params)

    def round_limit(self, items: Sequence[JsonValue] | None) -> int:
        """Give how many rounds there can be."""
        limit = self.rules.max_rounds(self.owner.node.params)
        return len(items or ()) if limit is None else limit


_JOINED: Mapping[str, Callable[[Any, Any], Any]] = {
    "outputs": join_outputs,
    "globals": merge,
    "turn": merge,
    "scope": merge,
}


class Step(Struct):
    """What a step does: its state update, and the graph names of the next nodes (or LangGraph's ``Send``)."""

    update: dict[str, Any]
    goto: list[Any] = field(default_factory=list[Any])
    begins_round: bool = False

    def then(self, other: Step) -> Step:
        """Join with what follows in the same superstep."""
        update = {**self.update, **other.update}
        for key in self.update.keys() & other.update.keys() & _JOINED.keys():
            update[key] = _JOINED[key](self.update[key], other.update[key])
        return Step(update, other.goto, other.begins_round)


class Scope(Struct, eq=False):
    """LangGraph's runtime context of a region's graph."""

    program: RegionProgram
    turn: TurnContext
    outer: Mapping[str, Any]
    """The state around, as the region's node sees it."""
    first: Mapping[str, JsonValue]
    """The owner's outputs at entry."""
    items: Sequence[JsonValue] | None
    only: int | None = None
    """The one round that this scope is for, where rounds run side by side."""

    def view(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Give the state as a body node sees it: what the body wrote over what is around."""
        outputs = dict(self.outer.get("outputs", {}))
        for node, written in state.get("outputs", {}).items():
            outputs[node] = {**outputs[node], **written} if node in outputs else written
        record, turn, around = state.get("scope", {}), self.outer.get("turn", {}), self.outer.get("globals", {})
        view = {
            **self.outer,
            "outputs": outputs,
            "globals": {**around, **state["globals"]} if state.get("globals") else around,
            "turn": merge_turn(turn, state["turn"]) if "turn" in state else turn,
            "scope": record,
            "ran": state.get("ran", {}),
            "place": (*self.outer.get("place", ()), record.get("round", 0)),
        }
        items = self._items(record)
        if items is not None:
            current = Round(record.get("round", 0), items)
            view["aliases"] = {"item": current.item, "result": current.item, "index": current.index}
        return view

    def _items(self, record: Mapping[str, Any]) -> Sequence[JsonValue] | None:
        return record.get("items", self.items)

    # Rounds

    async def enter(self, state: Mapping[str, Any], write: Write | None) -> Step:
        """Open the region and begin its first round, if there is one."""
        owner, clock = self.program.owner.node, self.turn.services.clock
        began = [clock.now(), clock.monotonic()]
        scope: dict[str, Any] = {"began": began, "collected": {}}
        if self.program.keeps_items and self.items is not None:
            scope["items"] = FrozenList(self.items)
        opened = Step({"outputs": {owner.id: dict(self.first)}, "scope": scope})
        if self.only is None:
            await self._emit(NodeStarted(owner.id, began[0]), write)
        return opened.then(await self._begin(self._after(state, opened.update), self.only or 0, write))

    async def spread(self, write: Write | None) -> tuple[dict[str, Any], range]:
        """Open a region whose rounds run side by side; give the state update and the numbers of the rounds."""
        owner, clock = self.program.owner.node, self.turn.services.clock
        began = [clock.now(), clock.monotonic()]
        await self._emit(NodeStarted(owner.id, began[0]), write)
        return {"scope": {"began": began}}, range(len(self.items or ()))

    def round_update(self, left: Mapping[str, Any]) -> dict[str, Any]:
        """Give what one of several rounds leaves: its values, and its outputs if it is the last of the list."""
        index = self.only or 0
        collected = left.get("scope", {}).get("collected", {})
        values = {name: read_entries(levels) for name, levels in collected.items()}
        update: dict[str, Any] = {"rounds": {str(index): {name: v[0] for name, v in values.items() if v}}}
        if index == len(self.items or ()) - 1:
            update["outputs"] = {n: e for n, e in left.get("outputs", {}).items() if n in self.program.inside}
        if record := {k: v for k, v in left.get("turn", {}).items() if k in ("error", "visits", "references")}:
            update["turn"] = record
        if leaving := left.get("scope", {}).get("leave"):
            update["scope"] = {"leave": leaving}
        return update

    async def close_round(self, state: Mapping[str, Any], update: Mapping[str, Any], write: Write | None) -> Step:
        """End the round with the update of its last node, and begin the next one or leave."""
        seen = self._after(state, update)
        record = seen.get("scope", {})
        index = record.get("round", 0)
        values = {"collected": self._collect(seen, index)} if self.program.collects else {}
        closed = Step({**update, "scope": {**update.get("scope", {}), **values}})
        if self.only is not None or (record.get("exit") and self.program.rules.leaves_at_exit):
            return closed
        seen["scope"] = {**record, **values}
        return closed.then(await self._begin(seen, index + 1, write))

    async def _begin(self, state: Mapping[str, Any], index: int, write: Write | None) -> Step:
        program = self.program
        view = self.view(state)
        items = self._items(view["scope"])
        current = Round(index, items)
        ctx = RunContext(program.owner.plan, program.owner.node, self.turn, view, round=current)
        try:
            has_next_round = program.rules.has_next_round(ctx, program.owner.node.params)
        except ComponentError as error:
            return Step({"scope": {"failure": str(error)}})
        if not has_next_round:
            return Step({"scope": {"round": index}, "outputs": await self._visit_item_in_vain(view, write)})
        scope = {"round": index, "exit": False, "settled": 0}
        if program.item is None:
            return Step(
                {"scope": scope, **{gate: {program.region.entry: None} for gate in program.entry_gates}},
                list(program.start),
                begins_round=True,
            )
        update, goto = await visit_item(program.item, view, self.turn, current, write)
        return Step({**update, "scope": scope}, goto, begins_round=bool(update.get("outputs")))

    async def _visit_item_in_vain(self, view: Mapping[str, Any], write: Write | None) -> dict[str, Any]:
        """RAGFlow's item node starts once more to find that there is nothing left. Give its outputs, by node."""
        if self.program.item is None:
            return {}
        item, now = self.program.item.node.id, self.turn.services.clock.now()
        outputs = view["outputs"].get(item, {})
        await self._emit(NodeStarted(item, now), write)
        await self._emit(NodeFinished(item, now, 0.0, {}, outputs), write)
        return {item: outputs}

    def _collect(self, seen: Mapping[str, Any], index: int) -> dict[str, Any]:
        """Gather the round's values; a node that did not run in it, or failed, gives ``""``."""
        collected = dict(seen.get("scope", {}).get("collected", {}))
        ran, view = seen.get("ran", {}), self.view(seen)
        outputs = view["outputs"]
        if self.program.region.item is not None:
            ran = {**ran, self.program.region.item: index}  # it begins every round
        for name, reference in self.program.collects.items():
            if reference.kind == "alias":
                value = view.get("aliases", {}).get(reference.key, "")
            else:
                is_there = ran.get(reference.node) == index and ERROR not in outputs.get(reference.node, {})
                value = look_up(reference, {}, outputs) if is_there else ""
            collected[name] = append_entry(collected.get(name, []), value)
        return collected

    def _after(self, state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """The state as it will be once the update is in."""
        after = dict(state)
        for key, fold in (("outputs", merge_outputs), ("globals", merge), ("scope", merge), ("ran", merge)):
            if key in update:
                after[key] = fold(state.get(key), update[key])
        return after

    async def _emit(self, event: EngineEvent, write: Write | None) -> None:
        await self.turn.emit(event, write)

    # The end

    def result(self, state: Mapping[str, Any]) -> tuple[dict[str, JsonValue], dict[str, Any]]:
        """Give the owner's outputs, and the update that carries what the body wrote to the state around."""
        owner = self.program.owner.node.id
        written: Mapping[str, Any] = state.get("outputs", {})
        lists = self._lists(state)
        outputs = {**self.first, **written.get(owner, {}), **lists}
        inside = {node: entry for node, entry in written.items() if node in self.program.inside}
        around = {n: e for n, e in written.items() if n != owner and n not in self.program.inside}
        update: dict[str, Any] = {"outputs": output_patch(set=inside, patch=around)}
        if assigned := state.get("globals"):
            update["globals"] = dict(assigned)
        record = state.get("turn", {})
        if kept := {name: record[name] for name in ("visits", "references") if name in record}:
            update["turn"] = kept
        return outputs, update

    def _lists(self, state: Mapping[str, Any]) -> dict[str, FrozenList]:
        collected = state.get("scope", {}).get("collected", {})
        lists = {name: FrozenList(read_entries(levels)) for name, levels in collected.items()}
        if rounds := state.get("rounds"):
            for name in self.program.collects:
                lists[name] = FrozenList(rounds[key].get(name, "") for key in sorted(rounds, key=int))
        return lists

    def error(self, state: Mapping[str, Any]) -> tuple[NodeId, str] | None:
        """Give the body node whose error stopped the turn, and its text."""
        error = state.get("turn", {}).get("error")
        return (NodeId(error[2]), error[3]) if error else None


async def visit_region(
    program: RegionProgram,
    state: Mapping[str, Any],
    turn: TurnContext,
    number: int,
    play: Callable[[Scope], Awaitable[Mapping[str, Any]]],
    write: Write | None,
) -> tuple[dict[str, Any], list[str]]:
    """Run a region as one node of the graph around; ``play`` runs its graph and gives the state that leaves.

    What happens before ``play`` happens again when a run goes on inside the region, so it only reads.
    """
    owner, clock = program.owner, turn.services.clock
    if not may_start(owner.node, state, turn):
        return {}, []
    ctx = RunContext(owner.plan, owner.node, turn, state, write=write)
    outcome = await attempt(owner, ctx, turn)
    if outcome.error is not None or outcome.is_halting:
        created_at = clock.now()
        await turn.emit(NodeStarted(owner.node.id, created_at), write)
        await tell(owner, ctx, outcome, created_at, 0.0)
        return update_of(owner, ctx, outcome, number), next_of(owner, outcome)
    scope = Scope(program, turn, state, outcome.outputs, program.rules.items(ctx, owner.node.params))
    left = await play(scope)
    outputs, carried = scope.result(left)
    if (error := scope.error(left)) is not None:
        node, text = error
        record = {**carried.get("turn", {}), "error": [number, owner.plan.nodes[node].rank, node, text]}
        return {**carried, "turn": record}, []
    record = left["scope"]
    if failure := record.get("failure"):
        outcome = failed(owner, ctx, failure)
    else:
        outcome.outputs = outputs
    if leaving := record.get("leave"):
        outcome.targets = tuple(NodeId(target) for target in leaving)
    wall, monotonic = record["began"]
    await tell(owner, ctx, outcome, wall, max(0.0, clock.monotonic() - monotonic))
    return Step(carried).then(Step(update_of(owner, ctx, outcome, number))).update, next_of(owner, outcome)
