"""Call everything that a RAGFlow SDK offers for memories; print the results as JSON.

Run in a separate process, with the SDK on the path and ``KEY`` in the environment:
``python -m tests.harness.sdk_memories URL``.
"""

import importlib
import json
import os
import sys
from typing import Any


def _use(client: Any) -> dict[str, Any]:
    results: dict[str, Any] = {}
    memory = client.create_memory("Notes", ["raw"], "", "")
    results["made"] = [memory.name, memory.memory_type]
    results["changed"] = memory.update({"name": "Diary"}).get_config().name
    listed = client.list_memory(keywords="dia")
    results["listed"] = [listed["total_count"], listed["memory_list"][0].id == memory.id]
    for text in ("I drink tea", "I have a red hat"):
        said = client.add_message([memory.id], "a1", "s1", text, "Fine.")
    results["said"] = said
    client.add_message([memory.id], "a1", "s2", "I am Anna", "Hello!", "anna")
    whole = memory.list_memory_messages(agent_id="a1", page_size=2)["messages"]
    results["messages"] = [whole["total_count"], [row["session_id"] for row in whole["message_list"]]]
    recent = client.get_recent_messages([memory.id], session_id="s1", limit=1)
    results["recent"] = [row["content"] for row in recent]
    (found,) = client.search_message("Which hat?", [memory.id], top_n=1)
    results["found"] = found["content"]
    number = found["message_id"]
    memory.update_message_status(number, False)
    results["active"] = memory.get_message_content(number)["status"]
    results["hidden"] = [row["message_id"] == number for row in client.search_message("Which hat?", [memory.id])]
    memory.forget_message(number)
    results["errors"] = [
        _error(lambda: memory.get_message_content(number)),
        _error(lambda: memory.update({"memory_size": 1})),
        _error(lambda: client.create_memory("Notes", ["dreams"], "", "")),
        _error(lambda: client.create_memory("Notes", ["raw"], "bge-m3@Unknown", "")),
    ]
    client.delete_memory(memory.id)
    results["left"] = client.list_memory()["total_count"]
    return results


def _error(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:  # noqa: BLE001 - any error of the SDK is a result
        return str(error).split("'")[0].strip()


def main() -> None:
    """Call everything and print one line."""
    client = importlib.import_module("ragflow_sdk").RAGFlow(os.environ["KEY"], sys.argv[1])
    print(json.dumps(_use(client)))


if __name__ == "__main__":
    main()
