"""Canvases of any size."""

from __future__ import annotations

from typing import Any


def component(name: str, params: dict[str, Any], downstream: list[str]) -> dict[str, Any]:
    """Return a component for a document."""
    return {"obj": {"component_name": name, "params": params}, "downstream": downstream}


def _transform(downstream: list[str]) -> dict[str, Any]:
    return component("StringTransform", {"method": "merge", "script": "hello {sys.query}"}, downstream)


def document(components: dict[str, Any]) -> dict[str, Any]:
    """Return a document with these components."""
    return {"components": components, "globals": {}}


def chain(length: int) -> dict[str, Any]:
    """Return Begin and a chain of ``length`` StringTransforms."""
    ids = [f"n{i}" for i in range(length)]
    nodes = {id_: _transform(ids[i + 1 : i + 2]) for i, id_ in enumerate(ids)}
    return document({"begin": component("Begin", {}, ids[:1]), **nodes})


def fan_out(width: int) -> dict[str, Any]:
    """Return Begin, ``width`` parallel StringTransforms and a StringTransform that joins them."""
    ids = [f"n{i}" for i in range(width)]
    nodes = {id_: _transform(["join"]) for id_ in ids}
    return document({"begin": component("Begin", {}, ids), **nodes, "join": _transform([])})


def streaming(model: str = "") -> dict[str, Any]:
    """Return Begin, an LLM and a Message that streams its answer."""
    nodes = {
        "begin": component("Begin", {}, ["llm"]),
        "llm": component("LLM", {"llm_id": model, "prompts": "{sys.query}"}, ["message"]),
        "message": component("Message", {"content": ["> {llm@content}"]}, []),
    }
    return document(nodes)


def _counting_loop(name: str, rounds: int) -> dict[str, Any]:
    params = {
        "loop_variables": [{"variable": "n", "input_mode": "constant", "type": "number", "value": 0}],
        "loop_termination_condition": [{"variable": f"{name}@n", "operator": "≥", "value": rounds}],
        "maximum_loop_count": rounds + 1,
    }
    return component("Loop", params, [])


def _increment(variable: str, downstream: list[str], parent: str) -> dict[str, Any]:
    change = {"variable": variable, "operator": "+=", "parameter": 1}
    return {**component("VariableAssigner", {"variables": [change]}, downstream), "parent_id": parent}


def loop(rounds: int) -> dict[str, Any]:
    """Return a Loop that counts, with one node per round."""
    return document(
        {
            "begin": component("Begin", {}, ["lp"]),
            "lp": _counting_loop("lp", rounds),
            "li": {**component("LoopItem", {}, ["inc"]), "parent_id": "lp"},
            "inc": _increment("lp@n", [], "lp"),
        }
    )
