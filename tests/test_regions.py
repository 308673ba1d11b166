"""Random canvases with regions.

Every item of an Iteration has the same results alone, after others, and beside them; and runs that are restarted for
each form, or play no rounds at the same time, have the results of an uninterrupted one.
"""

import asyncio
import copy
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.wire.wire_events import WireNodeFinished
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, text
from tests.fakes.regions import form, out, play_run
from tests.fakes.services import OneModel, ScriptedModel, fake_services
from tests.stores import OpenStore, store_opener

pytestmark = pytest.mark.slow

COUNT, BATCHES = int(os.environ.get("REGIONS", "30")), 5
"""More of them: ``python -m tests.campaigns regions 300``."""
ITEMS: list[Any] = ["a", "b", ["b", "c"], "", "a", "cab"]
Ends = list[str]


class EchoModel(ScriptedModel):
    """A model that answers with its prompt, so that values of other items show there."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        return ChatAnswer(f"<{request.messages[-1]['content']}>")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        prompt = str(request.messages[-1]["content"])
        for piece in ("<", prompt, ">"):
            yield ChatDelta(piece)


class Body:
    """A builder of a random body, or canvas, whose nodes read each other, whether or not they have run."""

    def __init__(self, chance: random.Random, *texts: str, has_forms: bool = False) -> None:
        self.chance = chance
        self.has_forms = has_forms
        self.components: dict[str, Any] = {}
        self.texts = [*texts]
        self.inner: list[str] = []
        """The lists of inner Iterations."""

    def put(self, component: dict[str, Any], parent: str) -> str:
        name = f"n{len(self.components)}"
        self.components[name] = {**component, **({"parent_id": parent} if parent else {})}
        return name

    def link(self, sources: Ends, target: str) -> None:
        for source in sources:
            self.components[source]["downstream"].append(target)

    def words(self, *references: str) -> str:
        chosen = [*references, *self.chance.sample(self.texts, min(2, len(self.texts)))]
        return "".join(f"[{{{reference}}}]" for reference in chosen)

    def line(self, parent: str, depth: int, length: int) -> tuple[str, Ends]:
        kinds = [self.text, self.text, self.message, self.answer, self.aggregator, self.change, self.part]
        kinds += [self.form, self.form] if self.has_forms else []
        kinds += [self.choice, self.choice, self.failure] if depth < 3 else []
        kinds += [self.iteration, self.loop] if depth < 2 else []
        first, ends = "", Ends()
        for _ in range(length):
            begin, last = self.chance.choice(kinds)(parent, depth)
            self.link(ends, begin)
            first, ends = first or begin, last
        return first, ends

    def text(self, parent: str, depth: int) -> tuple[str, Ends]:
        name = self.put(text([], self.words()), parent)
        self.texts.append(f"{name}@result")
        return name, [name]

    def form(self, parent: str, depth: int) -> tuple[str, Ends]:
        name = self.put(form(field := f"f{len(self.components)}", tips=f"{self.words()}?"), parent)
        self.texts.append(f"{name}@{field}")
        return name, [name]

    def message(self, parent: str, depth: int) -> tuple[str, Ends]:
        name = self.put(node("Message", {"content": [self.words()]}), parent)
        self.texts.append(f"{name}@content")
        return name, [name]

    def answer(self, parent: str, depth: int) -> tuple[str, Ends]:
        prompts = [{"role": "user", "content": self.words() + "?"}]
        name = self.put(node("LLM", {"llm_id": "m", "sys_prompt": "", "prompts": prompts, "cite": False}), parent)
        self.texts.append(f"{name}@content")
        reader = self.put(node("Message", {"content": [self.words(f"{name}@content")]}), parent)
        self.link([name], reader)
        return name, [reader]

    def aggregator(self, parent: str, depth: int) -> tuple[str, Ends]:
        choices = [{"value": r} for r in self.chance.sample(self.texts, min(3, len(self.texts)))]
        name = self.put(node("VariableAggregator", {"groups": [{"group_name": "g", "variables": choices}]}), parent)
        self.texts.append(f"{name}@g")
        return name, [name]

    def change(self, parent: str, depth: int) -> tuple[str, Ends]:
        """Change an output of another node of the body, which may not have run."""
        inside = [reference for reference in self.texts if self.parent_of(reference) == parent]
        own = [reference for reference in inside if "@" in reference and not reference.endswith("@item")]
        if not own:
            return self.text(parent, depth)
        target, value = self.chance.choice(own), self.chance.choice(self.texts)
        operator = self.chance.choice(("overwrite", "append", "clear"))
        row = {"variable": target, "operator": operator, "parameter": value}
        name = self.put(node("VariableAssigner", {"variables": [row]}), parent)
        return name, [name]

    def parent_of(self, reference: str) -> str:
        return str(self.components.get(reference.partition("@")[0], {}).get("parent_id", ""))

    def part(self, parent: str, depth: int) -> tuple[str, Ends]:
        """Read from a list, which fails for a text unless the default value helps."""
        params = {"query": self.chance.choice(self.texts + self.inner), "operations": "nth", "n": 1}
        default = {"exception_method": "comment", "exception_default_value": "default"}
        name = self.put(node("ListOperations", {**params, **default}), parent)
        self.texts += [f"{name}@result", f"{name}@first"]
        return name, [name]

    def choice(self, parent: str, depth: int) -> tuple[str, Ends]:
        ways = [self.line(parent, depth + 1, self.chance.randint(1, 2)) for _ in "ab"]
        operator, value = self.chance.choice((("contains", "b"), ("empty", ""), ("=", "a"), ("start with", "[c")))
        condition = {"cpn_id": self.chance.choice(self.texts), "operator": operator, "value": value}
        case = {"logical_operator": "and", "items": [condition], "to": [ways[0][0]]}
        top = self.put(node("Switch", {"conditions": [case], "end_cpn_ids": [ways[1][0]]}), parent)
        self.components[top]["downstream"] = [ways[0][0], ways[1][0]]
        return self.joined(top, [*ways[0][1], *ways[1][1]], parent)

    def joined(self, top: str, ends: Ends, parent: str) -> tuple[str, Ends]:
        join, _ = self.text(parent, 3)
        self.link(ends, join)
        return top, [join]

    def failure(self, parent: str, depth: int) -> tuple[str, Ends]:
        """Read from a list; a text leads to a handler."""
        params: dict[str, Any] = {"query": self.chance.choice(self.texts), "operations": "head", "n": 1}
        name = self.put(node("ListOperations", params), parent)
        self.texts += [f"{name}@result", f"{name}@_ERROR"]
        good, bad = (self.line(parent, depth + 1, 1) for _ in "ab")
        params |= {"exception_method": "goto", "exception_goto": [bad[0]]}
        self.link([name], good[0])
        return self.joined(name, [*good[1], *bad[1]], parent)

    def iteration(self, parent: str, depth: int) -> tuple[str, Ends]:
        name = self.put(node("Iteration", {"items_ref": "env.inner"}), parent)
        item = self.put(node("IterationItem"), name)
        self.texts.append(f"{item}@item")
        concurrency, has_forms = self.chance.choice((0, 2)), self.has_forms
        self.has_forms = has_forms and not concurrency
        first, _ = self.line(name, depth + 1, self.chance.randint(1, 3))
        self.has_forms = has_forms
        self.link([item], first)
        collected = self.chance.choice([r for r in self.texts if self.parent_of(r) == name])
        params = self.components[name]["obj"]["params"]
        params["outputs"] = {"r": {"ref": collected, "type": "Array"}}
        params["max_concurrency"] = concurrency
        self.inner.append(f"{name}@r")
        self.texts.append(f"{name}@r")
        return name, [name]

    def loop(self, parent: str, depth: int) -> tuple[str, Ends]:
        row = {"variable": "s", "input_mode": "constant", "type": "string", "value": ""}
        name = self.put(node("Loop", {"loop_variables": [row], "maximum_loop_count": 2}), parent)
        item = self.put(node("LoopItem"), name)
        self.texts.append(f"{name}@s")
        first, ends = self.line(name, depth + 1, self.chance.randint(1, 2))
        self.link([item], first)
        added = {"variable": f"{name}@s", "operator": "overwrite", "parameter": self.chance.choice(self.texts)}
        last = self.put(node("VariableAssigner", {"variables": [added]}), name)
        self.link(ends, last)
        return name, [name]


def random_document(seed: int, items: list[Any], concurrency: int) -> dict[str, Any]:
    """Return a canvas with an Iteration that collects from all nodes of its body; a last text reads some of them."""
    body = Body(random.Random(seed))
    item = body.put(node("IterationItem"), "it")
    body.texts.append(f"{item}@item")
    first, _ = body.line("it", 0, body.chance.randint(2, 5))
    body.link([item], first)
    own = [reference for reference in body.texts if body.parent_of(reference) == "it"]
    outputs = {f"o{number}": {"ref": reference, "type": "Array"} for number, reference in enumerate(own)}
    region = node("Iteration", {"items_ref": "env.items", "outputs": outputs, "max_concurrency": concurrency}, ["end"])
    end = text(["out"], body.words())
    return canvas({"it": region, **body.components, "end": end, **out("{end@result}")}, variables=lists(items=items))


def lists(**more: list[Any]) -> dict[str, Any]:
    """Return the variables of a canvas."""
    values = {"inner": ["b", "x"], **more}
    return {name: {"name": name, "type": "array", "value": value} for name, value in values.items()}


Results = dict[str, list[tuple[str, Any, Any]]]
"""By place: each node that finished there, with its inputs and outputs."""


async def play(document: dict[str, Any]) -> tuple[Results, Any]:
    """Return the results of the rounds, and the outputs that are stored at the end."""
    services = fake_services(models=OneModel(EchoModel()))
    runner = Runner(compile_canvas(document, CATALOG), services, saver=InMemorySaver())
    run = runner.start("s", {"query": "q"})
    results: Results = {}
    async for event in run:
        if isinstance(event, WireNodeFinished) and event.component_type != "IterationItem":  # it counts the items
            results.setdefault(event.place, []).append((event.component_id, event.inputs, event.outputs))
    assert run.status == "succeeded", run.error
    by_place = {place: sorted(found, key=lambda r: r[0]) for place, found in results.items()}
    return by_place, cast("Any", await runner.state("s"))["outputs"]


def rounds_of(results: Results, number: int) -> Results:
    """Return the results of one round, by the rest of their places."""
    prefix = str(number)
    return {
        place.removeprefix(prefix): found
        for place, found in results.items()
        if place == prefix or place.startswith(f"{prefix}.")
    }


async def compare(seed: int) -> None:
    document = random_document(seed, ITEMS, 0)
    in_turn, stored = await play(document)
    check_stored(document, in_turn, stored, seed)
    if can_run_beside(random_document(seed, ITEMS, 3)):
        beside, stored_beside = await play(random_document(seed, ITEMS, 3))
        assert beside == in_turn, seed
        assert stored_beside == stored, seed
    for number, item in enumerate(ITEMS):
        alone, _ = await play(random_document(seed, [item], 0))
        assert rounds_of(in_turn, number) == rounds_of(alone, 0), (seed, number)


def check_stored(document: dict[str, Any], results: Results, stored: dict[str, Any], seed: int) -> None:
    """Check that what is stored of the body is what the last item has left, unless a node has changed another one."""
    inside = {name: c for name, c in document["components"].items() if c.get("parent_id") == "it"}
    if not any(c["obj"]["component_name"] in ("VariableAssigner", "Loop") for c in document["components"].values()):
        last = {node: outputs for node, _, outputs in results[str(len(ITEMS) - 1)]}
        kept = {node: entry for node, entry in stored.items() if node in inside and node in last}
        assert kept == last, seed
        assert set(stored) & set(inside) == {*last, "n0"}, seed


def can_run_beside(document: dict[str, Any]) -> bool:
    return not diagnostics_of(document, "region-parallel")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_items_do_not_see_each_other(batch: int) -> None:
    for seed in range(batch * COUNT // BATCHES, (batch + 1) * COUNT // BATCHES):
        asyncio.run(compare(seed))


def canvas_with_forms(seed: int) -> dict[str, Any]:
    """Return a canvas with regions, half of them with forms in them."""
    chance = random.Random(seed)
    builder = Body(chance, "sys.query", has_forms=chance.random() < 0.5)
    first, ends = builder.line("", 0, chance.randint(3, 6))
    end = builder.put(text(["out"], builder.words()), "")
    builder.link(ends, end)
    return canvas({**builder.components, **out(f"{{{end}@result}}")}, [first], variables=lists())


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
        document = canvas_with_forms(seed)
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
