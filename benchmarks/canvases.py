"""Canvases of a given size."""

from __future__ import annotations

from typing import Any

__all__ = ["chain", "conditional_chain", "fan_out"]


def _component(name: str, params: dict[str, Any], downstream: list[str]) -> dict[str, Any]:
    return {"obj": {"component_name": name, "params": params}, "downstream": downstream}


def _transform(downstream: list[str]) -> dict[str, Any]:
    return _component("StringTransform", {"method": "merge", "script": "hello {sys.query}"}, downstream)


def _canvas(components: dict[str, Any]) -> dict[str, Any]:
    return {"components": components, "globals": {}}


def chain(length: int) -> dict[str, Any]:
    """Begin and ``length`` StringTransforms, one behind the other."""
    ids = [f"n{i}" for i in range(length)]
    nodes = {id_: _transform(ids[i + 1 : i + 2]) for i, id_ in enumerate(ids)}
    return _canvas({"begin": _component("Begin", {}, ids[:1]), **nodes})


def fan_out(width: int) -> dict[str, Any]:
    """Begin, ``width`` StringTransforms side by side, one that joins them."""
    ids = [f"n{i}" for i in range(width)]
    nodes = {id_: _transform(["join"]) for id_ in ids}
    return _canvas({"begin": _component("Begin", {}, ids), **nodes, "join": _transform([])})


def conditional_chain(length: int) -> dict[str, Any]:
    """Begin and ``length`` Switches, each with one way on and one way out."""
    condition = {"items": [{"cpn_id": "sys.query", "operator": "not empty"}]}
    nodes: dict[str, Any] = {}
    for i in range(length):
        target = f"s{i + 1}" if i + 1 < length else "end"
        params = {"conditions": [{**condition, "to": [target]}], "end_cpn_ids": [f"out{i}"]}
        nodes[f"s{i}"] = _component("Switch", params, [target, f"out{i}"])
        nodes[f"out{i}"] = _transform([])
    return _canvas({"begin": _component("Begin", {}, ["s0"]), **nodes, "end": _transform([])})


def streaming(model: str = "") -> dict[str, Any]:
    """Begin, LLM, Message."""
    nodes = {
        "begin": _component("Begin", {}, ["llm"]),
        "llm": _component("LLM", {"llm_id": model, "prompts": "{sys.query}"}, ["message"]),
        "message": _component("Message", {"content": ["> {llm@content}"]}, []),
    }
    return _canvas(nodes)
