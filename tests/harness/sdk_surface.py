"""Call everything that a RAGFlow SDK offers for agents; print the results as JSON.

Run in a separate process, with the SDK on the path and ``KEY`` in the environment:
``python -m tests.harness.sdk_surface URL DSLS``.
``DSLS`` is a JSON object of canvases: ``echo``, ``form``, ``model``, ``failing``.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any


def _try(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error as ``[class, text]``."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - any error of the SDK is a result
        return [type(error).__name__, str(error)[:200]]


def _texts(session: Any, question: str, stream: bool) -> list[str]:
    return [message.content for message in session.ask(question, stream=stream)]


def _manage_agents(client: Any, dsls: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    client.create_agent("Helper", dsls["echo"], "It helps.")
    (agent,) = client.list_agents()
    results["made"] = [agent.title, agent.description]
    whole = client.get_agent(agent.id) if hasattr(client, "get_agent") else agent
    results["components"] = sorted((whole.dsl.to_json() if hasattr(whole.dsl, "to_json") else whole.dsl)["components"])
    client.update_agent(agent.id, title="Aide", dsl=dsls["form"])
    results["changed"] = [found.title for found in client.list_agents()]
    results["taken"] = _try(lambda: client.create_agent("aide", dsls["echo"]))
    results["unknown"] = _try(lambda: client.update_agent("0" * 32, title="x"))
    session = agent.create_session()
    results["sessions"] = [found.id == session.id for found in agent.list_sessions(id=session.id)]
    agent.delete_sessions(ids=[session.id])
    for _ in range(2):
        agent.create_session()
    agent.delete_sessions(ids=[found.id for found in agent.list_sessions()])
    results["left"] = len(agent.list_sessions())
    client.delete_agent(agent.id)
    results["agents left"] = len(client.list_agents())
    return results


def _run_turns(client: Any, dsls: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    agents: dict[str, Any] = {}
    for name, dsl in dsls.items():
        before = {agent.id for agent in client.list_agents()}
        client.create_agent(name, dsl)
        (agents[name],) = [agent for agent in client.list_agents() if agent.id not in before]
    for stream in (False, True):
        kind = "stream" if stream else "whole"
        session = agents["model"].create_session()
        results[f"first, {kind}"] = _texts(session, "hi", stream)
        results[f"second, {kind}"] = _texts(session, "hi", stream)
        waiting = agents["form"].create_session()
        results[f"pause, {kind}"] = _texts(waiting, "go", stream)
        results[f"answer, {kind}"] = _texts(waiting, "42", stream)
        failing = agents["failing"].create_session()
        results[f"error, {kind}"] = _try(lambda failing=failing, stream=stream: _texts(failing, "hi", stream))
    return results


def main() -> None:
    """Call everything and print one line."""
    url, key, dsls = sys.argv[1], os.environ["KEY"], json.loads(sys.argv[2])
    client = importlib.import_module("ragflow_sdk").RAGFlow(key, url)
    results = {"crud": _try(lambda: _manage_agents(client, dsls)), "asking": _try(lambda: _run_turns(client, dsls))}
    results["missing"] = [_try(lambda: client.create_chat("x")), _try(lambda: client.create_dataset("x"))]
    results["missing"] += [_try(lambda: client.get_dataset("x")), _try(lambda: client.retrieve(["x"], question="x"))]
    results["refused"] = _try(lambda: importlib.import_module("ragflow_sdk").RAGFlow("wrong", url).list_agents())
    print(json.dumps(results))


if __name__ == "__main__":
    main()
