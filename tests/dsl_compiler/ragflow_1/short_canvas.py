"""Canvases in a short form, for tests: ``{id: [component, params, downstream, {upstream, parent_id, drawn}?]}``."""

from collections.abc import Mapping
from typing import Any


def expand(short: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document as the editor saves it. Begin leads to the first node, if the short form has none."""
    short = dict(short)  # its marks are taken out
    if short.pop("__empty__", False):
        return {"components": {}, "graph": {"nodes": [{"id": "n", "data": {"label": "Note"}}], "edges": []}}
    graph_only = short.pop("__graph_only__", False)
    if "begin" not in short:
        short = {"begin": ["Begin", {}, [next(iter(short))]], **short}
    parts: dict[str, list[Any]] = {id_: [*entry, {}][:4] for id_, entry in short.items()}
    components = {
        id_: {
            "obj": {"component_name": name, "params": params},
            "downstream": downstream,
            "upstream": more.get("upstream", [other for other, entry in parts.items() if id_ in entry[2]]),
            **({"parent_id": more["parent_id"]} if "parent_id" in more else {}),
        }
        for id_, (name, params, downstream, more) in parts.items()
    }
    nodes = [
        {
            "id": id_,
            "data": {"label": name, "name": id_, "form": params},
            **({"parentId": more["parent_id"]} if more.get("drawn", True) and "parent_id" in more else {}),
        }
        for id_, (name, params, _, more) in parts.items()
    ]
    edges = [{"source": id_, "target": to} for id_, entry in parts.items() for to in entry[2]]
    variables = {"list": {"name": "list", "type": "array<string>", "value": ["a"]}}
    return {
        "components": {} if graph_only else components,
        "graph": {"nodes": nodes, "edges": edges},
        "globals": {"sys.query": "", "sys.user_id": "", "sys.history": [], "sys.files": [], "env.list": ["a"]},
        "variables": variables,
        "history": [],
        "path": [],
        "retrieval": [],
    }
