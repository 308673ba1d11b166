"""The graph of a canvas as RAGFlow's editor stores it: ``python -m tests.harness.editor_graph FILE…`` writes it.

The editor shows a canvas by its graph alone, and rebuilds the components from it when it saves.
"""

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from ragflow_lg.dsl_compiler.editor_graph import TYPES


def read_canvas(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text("utf-8"))
    return document.get("dsl", document)


def build_form(id_: str, name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a node, from which the editor writes these params."""
    form = dict(params)
    if name == "Categorize":
        categories = form.pop("category_description")
        form["items"] = [
            {
                **{key: value for key, value in category.items() if key != "to"},
                "name": label,
                "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{id_}/{label}")),
                "examples": [{"value": example} for example in category["examples"]],
            }
            for label, category in categories.items()
        ]
    elif name == "DataOperations":
        form["query"] = [{"input": reference} for reference in form["query"]]
    elif name == "Begin" and form.get("mode") == "Webhook":
        form["schema"] = {section: _list_fields(part) for section, part in form["schema"].items()}
        addresses = [{"value": address} for address in form["security"].get("ip_whitelist", ())]
        form["security"] = {**form["security"], "ip_whitelist": addresses}
    return form


def save_params(node: dict[str, Any], edges: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the params that the editor writes for a node."""
    name, params = node["data"]["label"], dict(node["data"]["form"])
    if name == "Categorize":
        params["category_description"] = {
            item["name"]: {
                **{key: value for key, value in item.items() if key not in ("name", "uuid")},
                "examples": [example["value"] for example in item["examples"]],
                "to": [edge["target"] for edge in edges if edge["sourceHandle"] == item["uuid"]],
            }
            for item in params.pop("items")
        }
    elif name == "DataOperations":
        params["query"] = [row["input"] for row in params["query"]]
    elif name == "Begin" and params.get("mode") == "Webhook":
        params["schema"] = {section: _schema_of(rows) for section, rows in params["schema"].items()}
        addresses = [row["value"] for row in params["security"]["ip_whitelist"]]
        params["security"] = {**params["security"], "ip_whitelist": addresses}
    return params


def build_graph(dsl: dict[str, Any]) -> dict[str, Any]:
    """Return the graph for the components; positions, sizes and names are those of the present graph."""
    present = {node["id"]: node for node in dsl["graph"]["nodes"]}
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    for id_, component in dsl["components"].items():
        name, params = component["obj"]["component_name"], component["obj"]["params"]
        form = build_form(id_, name, params)
        data = {"label": name, "name": present[id_]["data"]["name"], "form": form}
        size = {key: present[id_][key] for key in ("width", "height") if key in present[id_]}
        parent = {"parentId": component["parent_id"], "extent": "parent"} if component.get("parent_id") else {}
        nodes.append(
            {
                "id": id_,
                "type": TYPES.get(name, "ragNode"),
                "position": present[id_]["position"],
                "sourcePosition": "left" if name == "Begin" else "right",
                "targetPosition": "right" if name == "Begin" else "left",
                "data": data,
                **size,
                **parent,
            }
        )
        for handle, target in _list_exits(name, component, form):
            edges.append(
                {
                    "id": f"xy-edge__{id_}{handle}-{target}end",
                    "source": id_,
                    "sourceHandle": handle,
                    "target": target,
                    "targetHandle": "end",
                }
            )
    return {"nodes": nodes, "edges": edges}


def _list_exits(name: str, component: dict[str, Any], form: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the handle and the target of each edge from a node."""
    params = component["obj"]["params"]
    if name == "Categorize":
        to = {label: category["to"] for label, category in params["category_description"].items()}
        return [(item["uuid"], target) for item in form["items"] for target in to[item["name"]]]
    if name == "Switch":
        cases = [
            (f"Case {number}", target) for number, row in enumerate(params["conditions"], 1) for target in row["to"]
        ]
        return [*cases, *(("end_cpn_ids", target) for target in params["end_cpn_ids"])]
    return [("start", target) for target in component["downstream"]]


def _list_fields(part: dict[str, Any]) -> list[dict[str, Any]]:
    required = part.get("required", ())
    return [
        {"key": key, "type": field["type"], "required": key in required}
        for key, field in part.get("properties", {}).items()
    ]


def _schema_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [row["key"] for row in rows if row["required"]],
        "properties": {row["key"]: {"type": row["type"]} for row in rows},
    }


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        text = path.read_text("utf-8")
        document = json.loads(text)
        dsl = document.get("dsl", document)
        dsl["graph"] = build_graph(dsl)
        indent = len(text.split("\n")[1]) - len(text.split("\n")[1].lstrip())
        path.write_text(json.dumps(document, ensure_ascii=False, indent=indent) + "\n", "utf-8")


if __name__ == "__main__":
    main()
