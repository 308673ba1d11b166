"""Call everything that a RAGFlow SDK offers for agents; print what came, as JSON.

Run in a process of its own, with the SDK on the path and ``KEY`` in the environment:
``python -m tests.harness.sdk_surface URL DSLS``.
``DSLS`` is a JSON object of canvases: ``echo``, ``form``, ``model``, ``failing``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["main"]


def _try(call: Callable[[], Any]) -> Any:
    """Give what a call gives, or its error as ``[class, text]``."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - what the SDK raises is what is looked for
        return [type(error).__name__, str(error)[:200]]


def _texts(session: Any, question: str, stream: bool) -> list[str]:
    return [message.content for message in session.ask(question, stream=stream)]


def _crud(client: Any, dsls: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    client.create_agent("Helper", dsls["echo"], "It helps.")
    (agent,) = client.list_agents()
    told["made"] = [agent.title, agent.description]
    whole = client.get_agent(agent.id) if hasattr(client, "get_agent") else agent
    told["components"] = sorted((whole.dsl.to_json() if hasattr(whole.dsl, "to_json") else whole.dsl)["components"])
    client.update_agent(agent.id, title="Aide", dsl=dsls["form"])
    told["changed"] = [found.title for found in client.list_agents()]
    told["taken"] = _try(lambda: client.create_agent("aide", dsls["echo"]))
    told["unknown"] = _try(lambda: client.update_agent("0" * 32, title="x"))
    session = agent.create_session()
    told["sessions"] = [found.id == session.id for found in agent.list_sessions(id=session.id)]
    agent.delete_sessions(ids=[session.id])
    told["left"] = len(agent.list_sessions())
    client.delete_agent(agent.id)
    told["agents left"] = len(client.list_agents())
    return told


def _asking(client: Any, dsls: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    agents: dict[str, Any] = {}
    for name, dsl in dsls.items():
        before = {agent.id for agent in client.list_agents()}
        client.create_agent(name, dsl)
        (agents[name],) = [agent for agent in client.list_agents() if agent.id not in before]
    for stream in (False, True):
        kind = "stream" if stream else "whole"
        session = agents["model"].create_session()
        told[f"first, {kind}"] = _texts(session, "hi", stream)
        told[f"second, {kind}"] = _texts(session, "hi", stream)
        asked = agents["form"].create_session()
        told[f"pause, {kind}"] = _texts(asked, "go", stream)
        told[f"answer, {kind}"] = _texts(asked, "42", stream)
        failing = agents["failing"].create_session()
        told[f"error, {kind}"] = _try(lambda failing=failing, stream=stream: _texts(failing, "hi", stream))
    return told


def main() -> None:
    """Play all, print one line."""
    url, key, dsls = sys.argv[1], os.environ["KEY"], json.loads(sys.argv[2])
    client = importlib.import_module("ragflow_sdk").RAGFlow(key, url)
    told = {"crud": _try(lambda: _crud(client, dsls)), "asking": _try(lambda: _asking(client, dsls))}
    told["refused"] = _try(lambda: importlib.import_module("ragflow_sdk").RAGFlow("wrong", url).list_agents())
    print(json.dumps(told))


if __name__ == "__main__":
    main()
