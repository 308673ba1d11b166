"""The module of a Loop or an Iteration: its subgraph, the start of each round, and the node that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, empty_of_type
from ragflow_lg.component.plan import ERROR, Plan, Region
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.eject.flow_shape import FlowShape, NotEjectable, forward_targets, is_commanding
from ragflow_lg.dsl_compiler.eject.graph_code import GraphCode
from ragflow_lg.dsl_compiler.eject.node_writer import NodeWriter
from ragflow_lg.dsl_compiler.eject.package_model import PackageModel
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal, quoted
from ragflow_lg.dsl_compiler.eject.python_module import PythonModule, command_type


def nodes_inside(plan: Plan, region: Region) -> list[NodeId]:
    """Return the nodes in a region that can run, including those in inner regions."""
    return list(dict.fromkeys(id_ for id_ in plan.nodes_inside(region) if plan.nodes[id_].rank >= 0))


class RegionModule:
    """Writes the module of a region."""

    def __init__(self, model: PackageModel, region: Region, outer: FlowShape, body: FlowShape) -> None:
        """``outer`` is the flow around the region, ``body`` the flow inside."""
        self.model = model
        self.region = region
        self.outer = outer
        self.body = body
        self.owner = model.plan.nodes[region.owner]
        assert self.owner.spec.region is not None
        self.rules = self.owner.spec.region
        self.name = model.name(region.owner)
        self.round_node = model.round_node(region)
        self.module = PythonModule(model.package, f"{self.owner.title or self.owner.id}: {self.owner.spec.description}")
        self.writer = NodeWriter(model, self.owner, self.module)
        self.module.use(f"{model.package}.state", "State")
        self.module.use_public("StateUpdate")

    def check(self) -> None:
        """Raise NotEjectable if the region has no counterpart."""
        if self.rules.max_concurrency(self.owner.params) > 1:
            raise NotEjectable(self.owner, "its rounds run side by side")
        if self.owner.exits:
            raise NotEjectable(self.owner, "its body jumps to nodes outside it")
        params: Any = self.owner.params
        if self.owner.on_error.method and not self._is_iteration and params.loop_termination_condition:
            raise NotEjectable(self.owner, "an error in its conditions continues elsewhere")
        exits = [node for node in self.body.nodes if node.spec.kind == "region_exit" and not node.runs_alone]
        if exits:
            raise NotEjectable(exits[0], "it ends a round in which other nodes may still run")

    def write(self) -> str:
        """Return the text of the module."""
        self._add_start_of_round()
        self._add_next_round()
        self._add_body()
        self._add_owner()
        return self.module.text()

    @property
    def _is_iteration(self) -> bool:
        return self.rules.list_reference(self.owner.params) is not None

    @property
    def _collects(self) -> Mapping[str, Reference]:
        return self.rules.collects(self.owner.params)

    # The rounds

    def _add_start_of_round(self) -> None:
        name, item = self.name, self.round_node
        lines = [f'    return {{"{name}_round": state.get("{name}_round", -1) + 1}}']
        if self._is_iteration:
            lines = [*self._next_item(item), "    return update"]
        self.module.add(f"async def {item}(state: State) -> StateUpdate:", '    """Begin the next round."""', *lines)

    def _next_item(self, item: str) -> Iterable[str]:
        yield f'    index = state.get("{self.name}_round", -1) + 1'
        yield f'    update: StateUpdate = {{"{self.name}_round": index}}'
        if self._collects:
            yield "    if index:"
            yield from self._collecting()
        yield f'    items = state.get("{self.name}_items", [])'
        inside = [id_ for id_ in nodes_inside(self.model.plan, self.region) if id_ != self.region.item]
        if inside:
            yield "    if not index or index < len(items):"
            yield f"        update |= dict.fromkeys({literal([*map(self.model.name, inside)], 2)}, {{}})"
        if self.region.item:
            yield "    if index < len(items):"
            yield '        item = {"item": items[index], "result": items[index], "index": index}'
            yield f"        update[{quoted(item)}] = item"

    def _collecting(self) -> Iterable[str]:
        yield f'        results = state.get("{self.name}_results", {{}})'
        yield f'        update["{self.name}_results"] = {{'
        for key, reference in self._collects.items():
            yield f"            {quoted(key)}: [*results.get({quoted(key)}, []), {self._collected(reference)}],"
        yield "        }"

    def _collected(self, reference: Reference) -> str:
        plan = self.model.plan
        reader = plan.nodes[self.region.body[0]] if self.region.body else self.owner
        if reference.kind == "alias":
            self.module.use_public("output")
            return str(self.model.value(reference, reader))
        inside = set(nodes_inside(plan, self.region))
        if reference.kind == "output" and reference.node not in inside:
            return self._blank(reference)
        if reference.kind == "global":
            raise NotEjectable(self.owner, "it collects a variable")
        self.module.use_public("collected")
        return str(self.model.value(reference, reader, "collected"))

    def _blank(self, reference: Reference) -> str:
        """Return what is collected if a node has not run."""
        node = self.model.plan.nodes.get(NodeId(reference.node))
        return "None" if reference.path or (node is not None and reference.key in node.declared) else '""'

    def _add_next_round(self) -> None:
        self.module.use("langgraph.graph", "END")
        start = literal([self.model.name(id_) for id_ in self.region.start])
        lines = self._end_of_iteration() if self._is_iteration else self._end_of_loop()
        self.module.add(
            f"def next_round_of_{self.name}(state: State) -> list[str]:",
            '    """Return the first nodes of the next round, or the end."""',
            *lines,
            f"    return {start}",
        )

    def _end_of_iteration(self) -> Iterable[str]:
        yield f'    if state.get("{self.name}_round", 0) >= len(state.get("{self.name}_items", [])):'
        yield "        return [END]"

    def _end_of_loop(self) -> Iterable[str]:
        params: Any = self.owner.params
        yield f'    if state.get("{self.name}_round", 0) >= {literal(params.maximum_loop_count)}:'
        yield "        return [END]"
        conditions = params.loop_termination_condition
        is_any = params.logical_operator == "or"
        if not conditions:
            if not is_any and self.model.plan.compatibility.skip_unconditional_loops:
                yield "    return [END]"
            return
        self.module.use_public("holds")
        tests = [self._test(condition) for condition in conditions]
        if len(tests) == 1:
            yield f"    if {tests[0]}:"
        else:
            yield "    conditions = ["
            yield from (f"        {test}," for test in tests)
            yield "    ]"
            yield f"    if {'any' if is_any else 'all'}(conditions):"
        yield "        return [END]"

    def _test(self, condition: Any) -> Code:
        variable = condition.variable
        if not isinstance(variable, Reference):
            variable = Reference("output", f"{self.owner.id}@{variable}", str(variable), self.owner.id)
        value = condition.value
        right = self.writer.value(value) if isinstance(value, Reference) else value
        return self.writer.call("holds", self.writer.value(variable), condition.operator or "", right)

    # The subgraph and the node that runs it

    def _add_body(self) -> None:
        code = GraphCode(self.model, self.module, self.body, f"build_body_of_{self.name}")
        self.module.use("langgraph.graph", "START")
        rounds = self.region.needs_closing
        code.add_node(self.round_node, is_local=True, is_deferred=rounds)
        code.add_nodes()
        code.lines.append(f"builder.add_edge(START, {quoted(self.round_node)})")
        ends = literal([*(self.model.name(id_) for id_ in self.region.start), Code("END")])
        code.lines.append(
            f"builder.add_conditional_edges({quoted(self.round_node)}, next_round_of_{self.name}, {ends})"
        )
        code.add_edges(self.round_node, leaves_at_exit=not self._is_iteration)
        self.module.add(*code.function("Return the graph of the rounds.", self.round_node))
        self.module.add(f"BODY = build_body_of_{self.name}().compile()")

    def _add_owner(self) -> None:
        module, name, owner = self.module, self.name, self.owner
        module.use("langchain_core.runnables", "RunnableConfig")
        module.use("langgraph.runtime", "Runtime")
        module.use(f"{self.model.package}.canvas", "CANVAS")
        module.use_public("Outputs", "Services")
        result = "StateUpdate"
        if is_commanding(owner):
            module.use("langgraph.types", "Command")
            result = command_type(module, [*self._goto(owner.on_error.goto), *self._goto(owner.downstream)])
        module.add(
            f"async def {name}(state: State, runtime: Runtime[Services]) -> {result}:",
            f'    """{owner.spec.name}: {owner.spec.description}"""',
            *(f"    {line}" for line in (*self._entering(), *self._leaving())),
        )

    def _goto(self, targets: Iterable[str]) -> list[str]:
        """Return the functions that run next; without any, the round of the region around this one ends."""
        names = [self.model.name(target) for target in forward_targets(self.model.plan, self.owner, targets)]
        around = self.model.regions_around(self.owner)
        return names or ([self.model.round_node(around[-1])] if around else [])

    def _caught(self, line: str) -> list[str]:
        """Return a statement that goes on as the canvas says if the region cannot begin."""
        owner, policy = self.owner, self.owner.on_error
        has_default = policy.method == "comment" and policy.default and not policy.goto and not owner.spec.shows_default
        if not policy.method or not (policy.jumps or policy.default):
            return [line]
        self.module.use_public("ComponentError")
        blank: dict[str, JsonValue | Code] = dict.fromkeys(owner.outputs)
        changed = {"result": policy.default} if has_default else {ERROR: Code("str(error)")}
        mark = f', "turn": CANVAS.mark_last({quoted(self.name)})' if self._marks_last and not policy.jumps else ""
        update = f"{{{quoted(self.name)}: {literal({**blank, **changed})}{mark}}}"
        after = f"Command(update={update}, goto={literal(self._goto(policy.goto))})" if policy.jumps else update
        caught = "ComponentError as error" if "str(error)" in update else "ComponentError"
        return ["try:", f"    {line}", f"except {caught}:", f"    return {after}"]

    @property
    def _marks_last(self) -> bool:
        return self.outer.marks_last(self.model.plan, self.owner)

    def _entering(self) -> list[str]:
        """Return the statements that run the subgraph."""
        name, owner = self.name, self.owner
        lines: list[str] = []
        entered: dict[str, JsonValue | Code] = {name: Code("outputs"), f"{name}_round": -1}
        steps = len(self.body.nodes) + 3
        if self._is_iteration:
            lines += self._caught(f"items = {self._items()}")
            first: dict[str, JsonValue | Code] = {key: [] for key in self._declared()}
            entered |= {f"{name}_items": Code("items"), f"{name}_results": {}}
            limit = f"(len(items) + 1) * {steps} + 10"
        else:
            first = dict(self._variables())
            params: Any = owner.params
            limit = f"({literal(params.maximum_loop_count)} + 1) * {steps} + 10"
        blank: dict[str, JsonValue | Code] = dict.fromkeys(owner.outputs)
        lines += [
            f"outputs: Outputs = {literal({**blank, **first}, 1)}",
            f"entered: State = {{**state, {', '.join(f'{quoted(k)}: {literal(v)}' for k, v in entered.items())}}}",
            f'config: RunnableConfig = {{"recursion_limit": {limit}}}',
            "final = await BODY.ainvoke(entered, config, context=runtime.context)",
        ]
        return lines

    def _leaving(self) -> list[str]:
        """Return the statements that return what the subgraph has changed."""
        changed = [self.name, *(self.model.name(id_) for id_ in self._changed())]
        call = self.writer.call("CANVAS.leave", Code("state"), Code("final"), *changed)
        more: list[str] = []
        if self._is_iteration and self._collects:
            results = f'final.get("{self.name}_results", {{}})'
            more.append(f'update["{self.name}"] = {{**final.get("{self.name}", outputs), **{results}}}')
        if self._marks_last:
            self.module.use_public("join_updates")
            more.append(f'update = join_updates(update, {{"turn": CANVAS.mark_last({quoted(self.name)})}})')
        if is_commanding(self.owner):
            more.append(f"return Command(update=update, goto={literal(self._goto(self.owner.downstream))})")
            return [f"update = {call}", *more]
        return [f"update = {call}", *more, "return update"] if more else [f"return {call}"]

    def _declared(self) -> Iterable[str]:
        declared: Any = self.owner.params.outputs
        return cast("dict[str, Any]", declared) if isinstance(declared, dict) else ()

    def _items(self) -> Code:
        params: Any = self.owner.params
        if params.wraps_single:
            raise NotEjectable(self.owner, "it accepts values that are not lists")
        self.module.use_public("as_list")
        problem = f"{params.items_ref} must be an array, but its type is {{type}}."
        return self.writer.call("as_list", self.writer.value(params.items_ref), problem)

    def _variables(self) -> Iterable[tuple[str, JsonValue | Code]]:
        """Yield the variables of a Loop with their first values."""
        params: Any = self.owner.params
        for row in params.loop_variables:
            if not row.variable:
                continue
            mode = row.input_mode if row.input_mode in ("constant", "variable") else ""
            is_odd = mode == "variable" and not isinstance(row.value, Reference)
            if mode and (row.value is None or not row.type or is_odd):
                raise NotEjectable(self.owner, f"its variable {row.variable!r} is incomplete")
            if mode == "variable":
                yield str(row.variable), self.writer.value(row.value)
            else:
                value: Any = row.value
                yield str(row.variable), value if mode else empty_of_type(row.type or "")

    def _changed(self) -> list[NodeId]:
        """Return the nodes whose outputs the body may change."""
        plan = self.model.plan
        inside = nodes_inside(plan, self.region)
        written = [r for id_ in inside for r in plan.nodes[id_].spec.writes(plan.nodes[id_].params)]
        assigned = [NodeId(r.node) for r in written if r.kind == "output"]
        known = [id_ for id_ in (*inside, *assigned) if id_ != self.owner.id and id_ in plan.nodes]
        return list(dict.fromkeys(known))
