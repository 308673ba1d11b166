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


def conditional_chain(length: int) -> dict[str, Any]:
    """Return Begin and ``length`` Switches, each with a case that continues the chain and a default that leaves it."""
    condition = {"items": [{"cpn_id": "sys.query", "operator": "not empty"}]}
    nodes: dict[str, Any] = {}
    for i in range(length):
        target = f"s{i + 1}" if i + 1 < length else "end"
        params = {"conditions": [{**condition, "to": [target]}], "end_cpn_ids": [f"out{i}"]}
        nodes[f"s{i}"] = component("Switch", params, [target, f"out{i}"])
        nodes[f"out{i}"] = _transform([])
    return document({"begin": component("Begin", {}, ["s0"]), **nodes, "end": _transform([])})


def streaming(model: str = "") -> dict[str, Any]:
    """Return Begin, an LLM and a Message that streams its answer."""
    nodes = {
        "begin": component("Begin", {}, ["llm"]),
        "llm": component("LLM", {"llm_id": model, "prompts": "{sys.query}"}, ["message"]),
        "message": component("Message", {"content": ["> {llm@content}"]}, []),
    }
    return document(nodes)
