"""Random canvases with regions and forms: uninterrupted, restarted and sequential runs have equal results."""

import asyncio
import copy
import os
import random
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import CATALOG, canvas, node, switch, text
from tests.fakes.regions import assign, form, out, play_run
from tests.fakes.services import fake_services
from tests.stores import OpenStore, store_opener

pytestmark = pytest.mark.slow

COUNT, BATCHES = int(os.environ.get("REGIONS", "15")), 5
"""More of them: ``python -m tests.campaigns regions 300``."""


class Builder:
    """A builder of a random canvas: sequences of nodes, branches with a join, Loops and Iterations, nested."""

    def __init__(self, chance: random.Random, *, has_forms: bool) -> None:
        self.chance = chance
        self.has_forms = has_forms
        self.components: dict[str, Any] = {}
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def put(self, kind: str, component: dict[str, Any], parent: str) -> str:
        name = self.name(kind)
        self.components[name] = {**component, **({"parent_id": parent} if parent else {})}
        return name

    def line(self, parent: str, item: str, depth: int, in_parallel: bool) -> tuple[str, str]:
        """Add a random sequence of nodes. Return its first and last node."""
        first = last = ""
        for _ in range(self.chance.randint(1, 3)):
            kinds = ["text", "branch", "choice"] + ["loop", "iteration"] * (depth < 3)
            kinds += ["form"] * (self.has_forms and not in_parallel)
            begin, end = getattr(self, self.chance.choice(kinds))(parent, item, depth, in_parallel)
            if last:
                self.components[last]["downstream"].append(begin)
            first, last = first or begin, end
        return first, last

    def text(self, parent: str, item: str, depth: int, in_parallel: bool) -> tuple[str, str]:
        name = self.put("t", text(script=f"{{sys.query}}{item}{self.count}"), parent)
        return name, name

    def form(self, parent: str, item: str, depth: int, in_parallel: bool) -> tuple[str, str]:
        field = self.name("f")
        name = self.put("ask", form(field, tips=f"{item}?"), parent)
        message = self.put("t", text(script=f"{{{name}@{field}}}"), parent)
        self.components[name]["downstream"].append(message)
        return name, message

    def branch(self, parent: str, item: str, depth: int, in_parallel: bool) -> tuple[str, str]:
        ends = [
            self.line(parent, item, depth + 1, in_parallel) if depth < 3 else self.text(parent, item, 3, in_parallel)
            for _ in "ab"
        ]
        top = self.put("t", text([begin for begin, _ in ends]), parent)
        join = self.put("j", text(script="".join(f"{{{end}@result}}" for _, end in ends)), parent)
        for _, end in ends:
            self.components[end]["downstream"].append(join)
        return top, join

    def choice(self, parent: str, item: str, depth: int, in_parallel: bool) -> tuple[str, str]:
        ways = [self.text(parent, item, depth, in_parallel)[0] for _ in "ab"]
        operator, read = self.chance.choice(["empty", "not empty"]), item.strip("{}") or "sys.query"
        top = self.put("sw", switch([ways[0]], [ways[1]], operator, read), parent)
        join = self.put("j", text(script="".join(f"{{{way}@result}}" for way in ways)), parent)
        for way in ways:
            self.components[way]["downstream"].append(join)
        return top, join

    def loop(self, parent: str, item: str, depth: int, in_parallel: bool) -> tuple[str, str]:
        name = self.name("lp")
        rows = [{"variable": "s", "input_mode": "constant", "type": "string", "value": ""}]
        loop = node("Loop", {"loop_variables": rows, "maximum_loop_count": self.chance.randint(0, 3)})
        self.components[name] = {**loop, **({"parent_id": parent} if parent else {})}
        begin, end = self.line(name, item, depth + 1, in_parallel)
        added = self.put("t", text(script=f"{{{name}@s}}{{{end}@result}}."), name)
        keep = self.put("k", assign(f"{name}@s", f"{added}@result"), name)
        self.components[end]["downstream"].append(added)
        self.components[added]["downstream"].append(keep)
        self.put("li", node("LoopItem", {}, [begin]), name)
        return name, self.add_text_of(name, f"{name}@s", parent)

    def iteration(self, parent: str, item: str, depth: int, in_parallel: bool) -> tuple[str, str]:
        name, row = self.name("it"), self.name("ii")
        is_parallel = self.chance.random() < 0.3
        begin, end = self.line(name, f"{{{row}@item}}", depth + 1, in_parallel or is_parallel)
        writes = any(c["obj"]["component_name"] in ("VariableAssigner",) for c in self.inside(name))
        params: dict[str, Any] = {"items_ref": "env.items", "outputs": {"r": {"ref": f"{end}@result", "type": "Array"}}}
        params["max_concurrency"] = 3 if is_parallel and not writes else 0
        self.components[name] = {**node("Iteration", params), **({"parent_id": parent} if parent else {})}
        self.components[row] = node("IterationItem", {}, [begin], parent_id=name)
        return name, self.add_text_of(name, f"{name}@r", parent)

    def inside(self, owner: str) -> list[Any]:
        direct = {n: c for n, c in self.components.items() if c.get("parent_id") == owner}
        return [*direct.values(), *(c for n in direct for c in self.inside(n))]

    def add_text_of(self, region: str, reference: str, parent: str) -> str:
        name = self.put("t", text(script=f"{{{reference}}}"), parent)
        self.components[region]["downstream"].append(name)
        return name


def random_canvas(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    builder = Builder(chance, has_forms=chance.random() < 0.5)
    begin, end = builder.line("", "", 0, False)
    builder.components[end]["downstream"].append("out")
    items = {"items": {"name": "items", "type": "array<string>", "value": ["p", "", "q"][: chance.randint(0, 3)]}}
    return canvas({**builder.components, **out(f"{{{end}@result}}")}, [begin], variables=items)


async def play_through(
    document: dict[str, Any], reopen: OpenStore, *, is_restarted: bool
) -> tuple[str, list[str], Any]:
    """Answer every form with the names of its fields. Return the answer, the node events and the outputs."""
    compiled = compile_canvas(document, CATALOG)
    node_events: list[str] = []
    answer: dict[str, Any] | None = None
    for _ in range(500):
        async with reopen() as store:
            play = Runner(compiled, fake_services(), store=store)
            while True:
                run = play.start("s", {"query": "q"}) if answer is None else play.resume("s", answer)
                text_shown, events = await play_run(run)
                node_events += [event for event in events if event[0] != "?"]
                if run.status != "waiting":
                    assert run.status == "succeeded", run.error
                    return text_shown, sorted(node_events), (await play.state("s"))["outputs"]
                answer = {field: field for pause in await play.pauses("s") for field in pause.inputs}
                if is_restarted:
                    break
    raise AssertionError("still waiting after 500 answers")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_restarted_and_sequential_runs_equal_the_uninterrupted_one(batch: int, tmp_path: Path) -> None:
    for seed in range(batch * COUNT // BATCHES, (batch + 1) * COUNT // BATCHES):
        document = random_canvas(seed)
        straight = asyncio.run(play_through(document, store_opener("memory://"), is_restarted=False))
        stored = store_opener(f"sqlite:///{tmp_path}/{seed}.db")
        restarted = asyncio.run(play_through(document, stored, is_restarted=True))
        assert restarted == straight, seed
        alone = without_concurrency(document)
        if alone != document:
            assert asyncio.run(play_through(alone, store_opener("memory://"), is_restarted=False))[0] == straight[0]


def without_concurrency(document: dict[str, Any]) -> dict[str, Any]:
    alone = copy.deepcopy(document)
    for component in alone["components"].values():
        if "max_concurrency" in component["obj"]["params"]:
            component["obj"]["params"]["max_concurrency"] = 0
    return alone
