"""What a tool gives is data wherever it goes: no reference, no Jinja, no instruction to the engine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, node
from tests.fakes.policies import Canvases, catalog_with, entry
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

HOSTILE = "{{ 7*7 }} {% set x = 1 %}{{ x }} {sys.query} {{sys.query}} {a@content} {secret@result} ${env.key} {item}"


def hostile() -> str:
    """Say something."""
    return HOSTILE


CATALOG = catalog_with(Hostile=hostile)
ASK = tool_calls(("Hostile_0", {}))


async def test_what_later_rounds_are_told_is_the_text_itself() -> None:
    played = await play_agent([ASK, Reply("ok")], {"tools": [entry("Hostile")]}, catalog=CATALOG)
    assert played.tool_results == [HOSTILE]
    assert played.model.requests[1][1].system == played.model.requests[0][1].system


async def shown(reply: str, reader: dict[str, Any], last: str) -> str:
    """Give what the last Message shows of an agent's answer, read by the nodes behind it."""
    model = ScriptedModel([ASK, Reply(reply)])
    components = {
        "secret": node("StringTransform", {"method": "merge", "script": "SECRET"}, ["a"]),
        "a": node(
            "Agent", {"llm_id": "m@T", "prompts": "{sys.query}", "tools": [entry("Hostile")]}, [next(iter(reader))]
        ),
        **reader,
        "out": node("Message", {"content": [last]}),
    }
    runner = runner_of(components, services=fake_services(models=OneModel(model)), catalog=CATALOG)
    run = runner.start("s", {"query": "QUERY"})
    async for _ in run:
        pass
    assert run.status == "succeeded", run.error
    return run.answer


@pytest.mark.parametrize("script", ["[{a@content}]", "{% if true %}[{a@content}]{% endif %}", "[{{ a@content }}]"])
async def test_a_transform_shows_it_as_it_is(script: str) -> None:
    reader = {"t": node("StringTransform", {"method": "merge", "script": script}, ["out"])}
    assert f"[{HOSTILE}]" in await shown(HOSTILE, reader, "<{t@result}>")


@pytest.mark.parametrize(
    "last",
    ["<{a@content}>", "{% if true %}<{a@content}>{% endif %}", "{% for n in [1] %}<{{ a@content }}>{% endfor %}"],
)
async def test_a_message_shows_it_as_it_is(last: str) -> None:
    reader = {"v": node("VariableAssigner", {"variables": []}, ["out"])}
    assert f"<{HOSTILE}>" in await shown(HOSTILE, reader, last)


async def test_a_prompt_of_another_model_holds_it_as_it_is() -> None:
    model = ScriptedModel([ASK, Reply(HOSTILE), Reply("done")])
    components = {
        "a": node("Agent", {"llm_id": "m@T", "prompts": "{sys.query}", "tools": [entry("Hostile")]}, ["l"]),
        "l": node("LLM", {"llm_id": "m@T", "sys_prompt": "S {a@content}", "prompts": "P {a@content}"}, ["out"]),
        "out": node("Message", {"content": ["{l@content}"]}),
    }
    runner = runner_of(components, services=fake_services(models=OneModel(model)), catalog=CATALOG)
    async for _ in runner.start("s", {"query": "QUERY"}):
        pass
    request = model.requests[-1][1]
    assert request.system == f"S {HOSTILE}"
    assert request.messages[-1]["content"] == f"P {HOSTILE}"


async def test_an_agent_or_canvas_below_is_asked_the_text_itself() -> None:
    helper = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@T", "sys_prompt": "H"}}
    inner = canvas({"m": node("Message", {"content": ["{sys.query}|{begin@note}"]})})
    inner["components"]["begin"]["obj"]["params"] = {"inputs": {"note": {"type": "line", "optional": True}}}
    replies = [
        tool_calls(("Helper_0", {"user_prompt": HOSTILE}), ("Canvas_1", {"query": HOSTILE, "note": HOSTILE})),
        Reply(HOSTILE),
        Reply("ok"),
    ]
    tools = [helper, entry("Canvas", canvas="c")]
    played = await play_agent(replies, {"tools": tools}, deployment=Canvases({"c": inner}), is_shown=False)
    assert played.model.requests[1][1].messages[-1]["content"] == HOSTILE
    assert played.tool_results == [HOSTILE, f"{HOSTILE}|{HOSTILE}"]
