"""One entry into a region: its body's view of the state, its rounds and its result.

A region is a node of the outer graph that contains a graph. The inner graph stores only what the body writes. All other
data is read through a `Scope`, which the region's node creates whenever it runs and which is never stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import Round, RunContext
from ragflow_lg.component.events import EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import ERROR, Region
from ragflow_lg.component.spec import RegionRules
from ragflow_lg.component.state import look_up, merge_turn, output_patch, place_of, updated_state
from ragflow_lg.component.state_size import output_part, size_of
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.engine.demo import read_items
from ragflow_lg.engine.node import may_start, visit_item
from ragflow_lg.engine.node_attempts import apply_error_policy, attempt
from ragflow_lg.engine.node_program import NodeProgram, Step, emit_finished, next_nodes, state_update

_SHARED_NOTES = ("visits", "shown", "references", "ends", "usage", "files")
"""The parts of the engine's record that a region's body adds to the turn's."""

Write = Callable[[EngineEvent], None]


class RegionProgram(Struct, frozen=True):
    """A region, with all the information about it that is known before a run."""

    owner: NodeProgram
    region: Region
    rules: RegionRules[Any, Any]
    item: NodeProgram | None
    start: tuple[str, ...]
    """The graph names of the first body nodes that are triggered directly."""
    gates: tuple[str, ...]
    """All gate channels in the body."""
    entry_gates: tuple[str, ...]
    """The gates to notify on entry if there is no item node to do so."""
    inside: frozenset[str]
    """All nodes within the region, including nodes in inner regions."""
    collects: Mapping[str, Reference]
    """The references whose values are collected at the end of each round, by output name."""
    stores_items: bool
    """Whether the list can change while the region runs, so that it is stored on entry."""

    @property
    def max_concurrency(self) -> int:
        """The maximum number of concurrent rounds."""
        return self.rules.max_concurrency(self.owner.node.params)

    @property
    def is_old(self) -> bool:
        """Whether the values are RAGFlow's; see `ragflow_lg.dsl.old_values`."""
        return self.owner.plan.compatibility.old_values

    def find_old(self, outputs: Mapping[str, Any]) -> list[str]:
        """Return the nodes whose outputs do not belong to a round that begins now."""
        keeps = self.rules.keeps_values or self.is_old
        return [] if keeps else [node for node in outputs if node in self.inside]

    def round_limit(self, items: Sequence[JsonValue] | None) -> int:
        """Return the maximum number of rounds."""
        limit = self.rules.max_rounds(self.owner.node.params)
        return len(items or ()) if limit is None else limit


WAVE_ROUNDS = 256
"""How many concurrent rounds are scheduled in one superstep; more than may run at the same time."""


class Scope(Struct, eq=False):
    """LangGraph's runtime context for a region's graph."""

    program: RegionProgram
    turn: TurnContext
    outer: Mapping[str, Any]
    """The outer state, as seen by the region's node."""
    first: Mapping[str, JsonValue]
    """The owner's outputs on entry."""
    items: Sequence[JsonValue] | None
    only: int | None = None
    """The only round of this scope, if rounds run concurrently."""

    @property
    def has_run(self) -> bool:
        """Whether the region has run before in this turn, and goes on where it has ended as in RAGFlow.

        There, the number of its rounds is -1 after the last one, and its lists are never emptied. Concurrent rounds
        begin at the first one: RAGFlow has none.
        """
        goes_on = self.program.is_old and self.program.max_concurrency == 1
        return goes_on and self.program.owner.node.id in self.outer.get("outputs", {})

    @property
    def collected_before(self) -> Mapping[str, Any]:
        """The values that the region has collected before in this turn, if it goes on with them."""
        outputs: Mapping[str, Any] = self.outer["outputs"][self.program.owner.node.id] if self.has_run else {}
        return {name: outputs[name] for name in self.program.collects if outputs.get(name)}

    def view(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state as seen by a body node: the outer state, overlaid with the body's writes."""
        outputs = dict(self.outer.get("outputs", {}))
        for node in self.program.find_old(outputs):  # of an earlier entry
            del outputs[node]
        for node, entry in state.get("outputs", {}).items():
            outputs[node] = {**outputs[node], **entry} if node in outputs else entry
        record, turn, outer_globals = state.get("scope", {}), self.outer.get("turn", {}), self.outer.get("globals", {})
        view = {
            **self.outer,
            "outputs": outputs,
            "globals": {**outer_globals, **state["globals"]} if state.get("globals") else outer_globals,
            "turn": merge_turn(turn, state["turn"]) if "turn" in state else turn,
            "scope": record,
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
        started = [clock.now(), clock.monotonic()]
        scope: dict[str, Any] = {"began": started, "collected": {**self.collected_before}}
        if self.program.stores_items and self.items is not None and self.only is None:
            scope["items"] = list(self.items)
        step = Step({"outputs": {owner.id: dict(self.first)}, "scope": scope})
        if self.only is None:
            await self._open(started[0], write)
        first = -1 if self.has_run and self.items != [] else 0
        index = first if self.only is None else self.only
        return step.then(await self._begin(updated_state(state, step.update), index, write))

    async def spread(self, state: Mapping[str, Any], write: Write | None) -> tuple[dict[str, Any], range]:
        """Open a region with concurrent rounds, or go on after a wave of them.

        Return the state update and the numbers of the next rounds.
        """
        record, total = state.get("scope", {}), len(self.items or ())
        if "began" in record:
            if "sent" not in record or "leave" in record or "error" in state.get("turn", {}):
                return {}, range(0)
            sent = min(record["sent"] + WAVE_ROUNDS, total)
            scope = {"sent": sent, "collected": self._collect_rounds(state)}
            return {"scope": scope, "rounds": {}}, range(record["sent"], sent)
        clock = self.turn.services.clock
        started = [clock.now(), clock.monotonic()]
        await self._open(started[0], write)
        sent = min(WAVE_ROUNDS, total)
        return {"scope": {"began": started, "sent": sent}}, range(sent)

    def is_last_of_wave(self) -> bool:
        """Return whether this is the last one of the concurrent rounds that started together, but not the very last."""
        number = (self.only or 0) + 1
        return number % WAVE_ROUNDS == 0 and number < len(self.items or ())

    def _collect_rounds(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the collected values, with those of the last wave. A jump out of the body ends them, as in turn."""
        collected, rounds = dict(state.get("scope", {}).get("collected", {})), state.get("rounds", {})
        for key in sorted(rounds, key=int):
            if not rounds[key]:
                break  # a round that has left the region collects nothing
            for name in self.program.collects:
                collected[name] = [*collected.get(name, []), rounds[key].get(name, "")]
        return collected

    def round_update(self, final: Mapping[str, Any]) -> dict[str, Any]:
        """Return the update from one of several rounds: its values and, for the last round, its outputs."""
        index = self.only or 0
        collected = final.get("scope", {}).get("collected", {})
        update: dict[str, Any] = {"rounds": {str(index): {name: v[0] for name, v in collected.items() if v}}}
        notes = {"error", *_SHARED_NOTES}
        if index == len(self.items or ()) - 1:
            update["outputs"] = {n: e for n, e in final.get("outputs", {}).items() if n in self.program.inside}
        else:
            notes.remove("shown")  # it describes outputs
        if record := {k: v for k, v in final.get("turn", {}).items() if k in notes}:
            update["turn"] = record
        if targets := final.get("scope", {}).get("leave"):
            update["scope"] = {"leave": targets}
        return update

    async def close_round(self, state: Mapping[str, Any], update: Mapping[str, Any], write: Write | None) -> Step:
        """End the round with its last node's update, and begin the next round or leave the region."""
        preview = updated_state(state, update)
        record = preview.get("scope", {})
        index = record.get("round", 0)
        try:
            values = {"collected": self._collect(preview)} if self.program.collects and index >= 0 else {}
        except ComponentError as error:
            return self._fail(update, str(error))
        step = Step({**update, "scope": {**update.get("scope", {}), **values}})
        if self.only is not None or (record.get("exit") and self.program.rules.leaves_at_exit):
            return step
        preview["scope"] = {**record, **values}
        return step.then(await self._begin(preview, index + 1, write))

    def _fail(self, update: Mapping[str, Any], text: str) -> Step:
        """End the turn after a node's last update: the region's policy must not hide that the state is too large."""
        owner = self.program.owner.node
        return Step({**update, "turn": {**update.get("turn", {}), "error": [0, owner.rank, owner.id, text]}})

    async def _begin(self, preview: dict[str, Any], index: int, write: Write | None) -> Step:
        """Begin a round, or end the region. ``preview`` is the state before it, and becomes the state in it."""
        program = self.program
        preview["scope"] = {**preview.get("scope", {}), "round": index}
        view = self.view(preview)
        items = self._items(view["scope"])
        current = Round(index, items)
        ctx = RunContext(program.owner.plan, program.owner.node, self.turn, view, round=current)
        try:
            has_next_round = program.rules.has_next_round(ctx, program.owner.node.params)
        except ComponentError as error:
            return Step({"scope": {"failure": str(error)}})
        if not has_next_round:
            return Step({"scope": {"round": index}, "outputs": await self._end_item(view, write, ctx.notices)})
        begun = Step({"scope": {"round": index, "exit": False, "settled": 0}})
        if old := program.find_old(preview.get("outputs", {})):
            begun.update["outputs"] = output_patch(remove=old)
        if program.item is None:
            gates = {gate: {program.region.entry: None} for gate in program.entry_gates}
            return begun.then(Step(gates, list(program.start), begins_round=True))
        update, goto = await visit_item(program.item, ctx, view, self.turn, write)
        return begun.then(Step(update, goto, begins_round=bool(update.get("outputs"))))

    async def _end_item(self, view: Mapping[str, Any], write: Write | None, notices: Sequence[str]) -> dict[str, Any]:
        """Start the item node again after the last item, as RAGFlow does. Return its outputs, by node."""
        if self.program.item is None:
            return {}
        item, now = self.program.item.node.id, self.turn.services.clock.now()
        outputs = view["outputs"].get(item, {})
        place = place_of(view)
        await self.turn.emit(NodeStarted(item, now, place=place), write)
        await self.turn.emit(NodeFinished(item, now, 0.0, {}, outputs, place=place, notices=tuple(notices)), write)
        return {item: outputs}

    def _collect(self, preview: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the round's values. A node that failed has none."""
        collected = dict(preview.get("scope", {}).get("collected", {}))
        view = self.view(preview)
        outputs = {id_: entry for id_, entry in view["outputs"].items() if id_ in self.program.inside}
        for name, reference in self.program.collects.items():
            if reference.kind == "alias":
                value = view.get("aliases", {}).get(reference.key, "")
            else:
                has_failed = outputs.get(reference.node, {}).get(ERROR) and not self.program.is_old
                node = self.program.owner.plan.nodes.get(NodeId(reference.node))  # None: `check` has warned of it
                value = look_up(reference, {}, {} if has_failed else outputs, node.declared if node else ())
            self.turn.state_size.add(self._part(name), size_of(value), self.turn.services.state_limits)
            collected[name] = [*collected.get(name, []), value]
        return collected

    def _part(self, name: str) -> str:
        """Return the name of a collected output as a part of the turn's state."""
        return output_part(self.program.owner.node.id, name)

    async def _open(self, started_at: float, write: Write | None) -> None:
        """Begin the region. What an earlier entry into it has collected counts only if this one goes on with it."""
        before = self.collected_before
        for name in self.program.collects:
            self.turn.state_size.replace(self._part(name), size_of(before.get(name)), self.turn.services.state_limits)
        place = place_of(self.outer)
        await self.turn.emit(NodeStarted(self.program.owner.node.id, started_at, place=place), write)

    # The end

    def result(self, state: Mapping[str, Any]) -> tuple[dict[str, JsonValue], dict[str, Any]]:
        """Return the owner's outputs, and the update that adds the body's writes to the outer state."""
        owner = self.program.owner.node.id
        entries: Mapping[str, Any] = state.get("outputs", {})
        outputs = {**self.first, **entries.get(owner, {}), **self._collect_rounds(state)}
        inside = {node: entry for node, entry in entries.items() if node in self.program.inside}
        outside = {n: e for n, e in entries.items() if n != owner and n not in self.program.inside}
        old = self.program.find_old(self.outer.get("outputs", {}))
        update: dict[str, Any] = {"outputs": output_patch(remove=old, set=inside, patch=outside)}
        if assigned := state.get("globals"):
            update["globals"] = dict(assigned)
        record = state.get("turn", {})
        if notes := {name: record[name] for name in _SHARED_NOTES if name in record}:
            update["turn"] = notes
        return outputs, update

    def error(self, state: Mapping[str, Any]) -> tuple[NodeId, str] | None:
        """Return the body node whose error stopped the turn, and the error message."""
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
    """Run a region as one node of the outer graph; ``play`` runs its graph and returns the final state.

    All code before ``play`` is repeated when a run continues inside the region, so it must only read.
    """
    owner, clock = program.owner, turn.services.clock
    if not may_start(owner.node, state, turn):
        return {}, []
    ctx = RunContext(owner.plan, owner.node, turn, state, write=write)
    outcome = await attempt(owner, ctx, turn)
    if outcome.error is not None or outcome.is_halting:
        created_at = clock.now()
        await turn.emit(NodeStarted(owner.node.id, created_at, place=ctx.place), write)
        update: dict[str, Any] = {}
        if program.is_old and program.item is not None and owner.node.spec.yields_items and outcome.fallback:
            # In RAGFlow, the first round begins after the default value, and fails.
            outcome.targets, outcome.is_halting = (), True
            item = program.item.node.id
            outputs: dict[str, JsonValue] = {ERROR: outcome.error}
            await turn.emit(NodeStarted(item, created_at, place=ctx.place), write)
            await turn.emit(NodeFinished(item, created_at, 0.0, {}, outputs, outcome.error, place=ctx.place), write)
            update = {"outputs": {item: outputs}}
        await emit_finished(owner, ctx, outcome, created_at, 0.0)
        return Step(update).then(Step(state_update(owner, ctx, outcome, number))).update, next_nodes(owner, outcome)
    scope = Scope(program, turn, state, outcome.outputs, read_items(ctx, owner.node))
    final = await play(scope)
    outputs, update = scope.result(final)
    if (error := scope.error(final)) is not None:
        node, text = error
        record = {**update.get("turn", {}), "error": [number, owner.plan.nodes[node].rank, node, text]}
        return {**update, "turn": record}, []
    record = final["scope"]
    if failure := record.get("failure"):
        outcome = apply_error_policy(owner, ctx, failure)
    else:
        outcome.outputs = outputs
    if targets := record.get("leave"):
        outcome.targets = tuple(NodeId(target) for target in targets)
    wall, monotonic = record["began"]
    await emit_finished(owner, ctx, outcome, wall, max(0.0, clock.monotonic() - monotonic))
    return Step(update).then(Step(state_update(owner, ctx, outcome, number))).update, next_nodes(owner, outcome)
