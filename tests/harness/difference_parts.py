"""Parts of a canvas in which the results differ from RAGFlow's, by rows of ``docs/fidelity.md``."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tests.harness.canvas_builder import Part, Scope
from tests.harness.random_canvases import RandomCanvas

Add = Callable[[RandomCanvas], Part]
DIFFERENCES: dict[str, Add] = {}


def part_of(row: str) -> Callable[[Add], Add]:
    """Register what adds the part of a row to the end of a canvas."""

    def add(build: Add) -> Add:
        DIFFERENCES[row] = build
        return build

    return add


def put_message(canvas: RandomCanvas, text: str, scope: Scope | None = None, **params: Any) -> Part:
    name = canvas.put("Message", {"content": [text], **params}, scope or canvas.scope)
    return name, [name]


def put_text(canvas: RandomCanvas, script: str, scope: Scope | None = None) -> str:
    params = {"method": "merge", "script": script, "outputs": {"result": {"type": "string", "value": ""}}}
    return canvas.put("StringTransform", params, scope or canvas.scope)


def chain(canvas: RandomCanvas, *nodes: str) -> Part:
    for source, target in itertools.pairwise(nodes):
        canvas.link([source], target)
    return nodes[0], [nodes[-1]]


def put_switch(canvas: RandomCanvas, scope: Scope, to: str, otherwise: str, **item: Any) -> str:
    condition = {"cpn_id": "sys.query", "operator": "contains", "value": "question", **item}
    cases = [{"logical_operator": "and", "items": [condition], "to": [to]}]
    name = canvas.put("Switch", {"conditions": cases, "end_cpn_ids": [otherwise]}, scope)
    canvas.components[name]["downstream"] = [to, otherwise]
    return name


def streamed(canvas: RandomCanvas, pieces: Sequence[str], **params: Any) -> Part:
    model = canvas.model(canvas.scope, pieces, **params)
    message, _ = put_message(canvas, f"<{{{model}@content}}>")
    return chain(canvas, model, message)


def add_variable(canvas: RandomCanvas, name: str, kind: str, value: Any) -> None:
    canvas.variables[name] = {"name": name, "type": kind, "value": value}
