"""Canvases that are large, dense or without end: to check, draw, save and run."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.fakes.canvas import canvas, node, text
from tests.harness.noisy.attack import JSON, Attack, Attacker, by_canvas

END = node("Message", {"content": ["done"]})


def chain(length: int) -> dict[str, Any]:
    """Return a chain of nodes."""
    components = {f"t{n}": text([f"t{n + 1}"]) for n in range(length)}
    return canvas({**components, f"t{length}": END})


def _fan(width: int) -> dict[str, Any]:
    return canvas({**{f"t{n}": text(["m"]) for n in range(width)}, "m": END}, [f"t{n}" for n in range(width)])


def _dense(count: int) -> dict[str, Any]:
    """Return a canvas in which every node leads to all later ones."""
    names = [*(f"t{n}" for n in range(count)), "m"]
    return canvas({**{f"t{n}": text(names[n + 1 :]) for n in range(count)}, "m": END})


def _layers(depth: int, width: int) -> dict[str, Any]:
    components: dict[str, Any] = {}
    for layer in range(depth):
        targets = [f"t{layer + 1}x{n}" for n in range(width)] if layer + 1 < depth else ["m"]
        components |= {f"t{layer}x{n}": text(targets) for n in range(width)}
    return canvas({**components, "m": END}, [f"t0x{n}" for n in range(width)])


def _cycle(length: int) -> dict[str, Any]:
    return canvas({f"t{n}": text([f"t{(n + 1) % length}"]) for n in range(length)})


def _cycles(count: int) -> dict[str, Any]:
    """Return a canvas in which every node can lead to every other one."""
    names = [f"t{n}" for n in range(count)]
    return canvas({name: text(names) for name in names})


def _loops(depth: int, rounds: int) -> dict[str, Any]:
    """Return Loops in Loops."""
    components: dict[str, Any] = {"m": END}
    for level in range(depth):
        parent = {"parent_id": f"loop{level - 1}"} if level else {}
        params: dict[str, Any] = {"loop_variables": [], "maximum_loop_count": rounds}
        components[f"loop{level}"] = node("Loop", params, [] if level else ["m"], **parent)
        inner = f"loop{level + 1}" if level + 1 < depth else "x"
        components[f"item{level}"] = node("LoopItem", {}, [inner], parent_id=f"loop{level}")
    components["x"] = text([], parent_id=f"loop{depth - 1}")
    return canvas(components, ["loop0"])


def _iteration(count: int, concurrency: int, size: int = 1) -> dict[str, Any]:
    params = {"items_ref": "env.l", "max_concurrency": concurrency, "outputs": {"o": {"ref": "x@result"}}}
    components = {
        "it": node("Iteration", params, ["m"]),
        "item": node("IterationItem", {}, ["x"], parent_id="it"),
        "x": text([], "{item@item}{item@item}", parent_id="it"),
        "m": node("Message", {"content": ["{it@o}"]}),
    }
    return canvas(
        components, variables={"l": {"name": "l", "type": "array", "value": ["a" * size] * count}}, globals={}
    )


def _form(fields: int, options: int) -> dict[str, Any]:
    inputs = {f"f{n}": {"name": f"F{n}", "type": "options", "options": ["o"] * options} for n in range(fields)}
    return canvas({"f": node("UserFillUp", {"inputs": inputs}, ["m"]), "m": END})


def _begin(fields: int) -> dict[str, Any]:
    inputs = {f"f{n}": {"name": f"F{n}", "type": "line"} for n in range(fields)}
    return canvas({"begin": node("Begin", {"inputs": inputs}, ["m"]), "m": END})


def _variables(count: int, size: int) -> dict[str, Any]:
    described = {f"v{n}": {"name": f"v{n}", "type": "string", "value": "x" * size} for n in range(count)}
    return canvas({"m": END}, variables=described, globals={f"env.v{n}": "x" * size for n in range(count)})


def _categories(count: int) -> dict[str, Any]:
    described = {f"c{n}": {"description": "x" * 200, "examples": ["x"] * 20, "to": ["m"]} for n in range(count)}
    params = {"llm_id": "any@Mock", "query": "sys.query", "category_description": described}
    return canvas({"c": node("Categorize", params, ["m"]), "m": END})


def _deep_graph(depth: int) -> bytes:
    """Return the body that creates an agent whose drawing is nested deeply."""
    document = json.dumps(canvas({"m": END}))
    return f'{{"title": "Deep", "dsl": {document[:-1]}, "graph": {"[" * depth}{"]" * depth}}}}}'.encode()


def _wide_graph(count: int) -> dict[str, Any]:
    nodes: list[Any] = [
        {"id": f"n{n}", "type": "x", "position": {"x": n, "y": n}, "data": {"form": {}}} for n in range(count)
    ]
    return canvas(
        {"m": END}, graph={"nodes": nodes, "edges": [{"source": "n0", "target": f"n{n}"} for n in range(count)]}
    )


def _schema(depth: int) -> dict[str, Any]:
    """Return a canvas whose model has to answer by a schema that doubles at each of its levels."""
    definitions: dict[str, Any] = {f"d{depth}": {"type": "string"}}
    for n in range(depth):
        reference = {"$ref": f"#/$defs/d{n + 1}"}
        definitions[f"d{n}"] = {"anyOf": [reference, {"allOf": [reference, reference]}]}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    params = {"llm_id": "any@Mock", "prompts": "x", "outputs": {"structured": schema}}
    return canvas({"l": node("LLM", params, ["m"]), "m": END})


def _odd_text(count: int) -> dict[str, Any]:
    """Return a canvas with names that look alike, and with marks of direction."""
    names = [f"t\u202e{chr(0x200B) * n}\u0301" for n in range(count)]
    following = [*names[1:], "m"]
    return canvas({name: text([target]) for name, target in zip(names, following, strict=True)} | {"m": END})


def _empty_components() -> dict[str, Any]:
    return {"components": {f"c{n}": None for n in range(300_000)}}


def _by_route(name: str, summary: str, path: str, build: Callable[[], Any], **more: Any) -> Attack:
    """Return an attack that posts a canvas to a route of the native API."""

    async def prepare(attacker: Attacker) -> None:
        attacker.kept["body"] = json.dumps(build()).encode()

    async def step(attacker: Attacker) -> None:
        await attacker.send("POST", path, content=attacker.kept["body"], headers=JSON)

    return Attack(name, summary, step, prepare, **more)


def _by_saving(name: str, summary: str, build: Callable[[], bytes]) -> Attack:
    async def prepare(attacker: Attacker) -> None:
        attacker.kept["body"] = build()

    async def step(attacker: Attacker) -> None:
        await attacker.agent_of(attacker.kept["body"].replace(b'"title": "', b'"title": "%d' % attacker.count(), 1))

    return Attack(name, summary, step, prepare)


def _large_body() -> bytes:
    return json.dumps({"title": "Large", "dsl": _variables(100, 140_000)}).encode()


CHECK, SVG, PNG, TEXT = "/native/v1/check", *(f"/native/v1/draw?format={f}" for f in ("svg", "png", "text"))

ATTACKS: list[Attack] = [
    _by_route("check-chain", "check a chain of 20,000 nodes", CHECK, partial(chain, 20_000)),
    _by_route("check-dense", "check 600 nodes with all edges", CHECK, partial(_dense, 600)),
    _by_route("check-cycles", "check 300 nodes in all cycles", CHECK, partial(_cycles, 300)),
    _by_route("check-layers", "check 60 layers of 40 nodes", CHECK, partial(_layers, 60, 40)),
    _by_route(
        "check-nothing",
        "check 300,000 empty components",
        CHECK,
        _empty_components,
    ),
    _by_route("draw-svg", "draw 2,000 nodes as SVG", SVG, partial(chain, 2000)),
    _by_route("draw-png", "draw 60 layers of 40 nodes as PNG", PNG, partial(_layers, 60, 40)),
    _by_route("draw-text", "draw 300 nodes with all edges as text", TEXT, partial(_dense, 300)),
    _by_saving("save-deep-graph", "save a drawing nested 2,000,000 deep", partial(_deep_graph, 2_000_000)),
    _by_saving("save-graph-1000", "save a drawing nested 1,000 deep", partial(_deep_graph, 1000)),
    _by_saving("save-large", "save agents of 14 MB", _large_body),
    by_canvas("save-wide-graph", "a drawing with 50,000 nodes", partial(_wide_graph, 50_000)),
    by_canvas("run-chain", "a chain of 3,000 nodes", partial(chain, 3000)),
    by_canvas("run-fan", "3,000 nodes at once", partial(_fan, 3000)),
    by_canvas("run-dense", "200 nodes with all edges", partial(_dense, 200)),
    by_canvas("run-layers", "30 layers of 30 nodes", partial(_layers, 30, 30)),
    by_canvas("cycle", "a cycle without end", partial(_cycle, 2)),
    by_canvas("cycles", "60 nodes in all cycles", partial(_cycles, 60)),
    by_canvas("loop-rounds", "a Loop of a million rounds", partial(_loops, 1, 1_000_000)),
    by_canvas("loop-nest", "6 Loops in each other", partial(_loops, 6, 1000)),
    by_canvas("loop-deep", "200 Loops in each other", partial(_loops, 200, 2)),
    by_canvas("iteration", "an Iteration over 100,000 items", partial(_iteration, 100_000, 1)),
    by_canvas("iteration-parallel", "64 rounds at once, 50,000 items", partial(_iteration, 50_000, 64)),
    by_canvas("iteration-large", "64 rounds at once, items of 100 KB", partial(_iteration, 64, 64, 100_000)),
    by_canvas("form-fields-many", "a form with 20,000 fields", partial(_form, 20_000, 1)),
    by_canvas("form-options", "100 fields with 5,000 options each", partial(_form, 100, 5000)),
    by_canvas("begin-fields", "50,000 fields of Begin", partial(_begin, 50_000)),
    by_canvas("variables", "100,000 environment variables", partial(_variables, 100_000, 10)),
    by_canvas("variables-large", "environment variables of 12 MB", partial(_variables, 100, 120_000)),
    by_canvas("categories", "2,000 categories", partial(_categories, 2000)),
    by_canvas("schema", "a schema that doubles 36 times", partial(_schema, 36)),
    by_canvas("odd-names", "names of invisible characters", partial(_odd_text, 500)),
]
