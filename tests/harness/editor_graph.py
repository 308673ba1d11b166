"""What RAGFlow's editor, which shows a canvas by its graph alone, writes when it saves."""

import json
from pathlib import Path
from typing import Any


def read_canvas(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text("utf-8"))
    return document.get("dsl", document)


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


def _schema_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [row["key"] for row in rows if row["required"]],
        "properties": {row["key"]: {"type": row["type"]} for row in rows},
    }
