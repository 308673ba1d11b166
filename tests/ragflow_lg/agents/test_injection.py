"""The result of a tool is data everywhere: it is not interpreted as references, Jinja or instructions."""

from typing import Any

from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, node
from tests.fakes.policies import Canvases, catalog_with, entry
from tests.fakes.regions import play_run, runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

HOSTILE = "{{ 7*7 }} {% set x = 1 %}{{ x }} {sys.query} {{sys.query}} {a@content} {secret@result} ${env.key} {item}"


def hostile() -> str:
    """Return a hostile text."""
    return HOSTILE


CATALOG = catalog_with(Hostile=hostile)
ASK = tool_calls(("Hostile_0", {}))
AGENT = {"llm_id": "m@T", "prompts": "{sys.query}", "tools": [entry("Hostile")]}


async def answer_of(reply: str, reader: dict[str, Any], last: str) -> str:
    """Return what the last Message shows of an agent's answer after the ``reader`` nodes."""
    model = ScriptedModel([ASK, Reply(reply)])
    components = {
        "secret": node("StringTransform", {"method": "merge", "script": "SECRET"}, ["a"]),
        "a": node("Agent", AGENT, [next(iter(reader))]),
        **reader,
        "out": node("Message", {"content": [last]}),
    }
    runner = runner_of(components, services=fake_services(models=OneModel(model)), catalog=CATALOG)
    return (await play_run(runner.start("s", {"query": "QUERY"})))[0]


PLACES = ["<{a@content}>", "{% if true %}<{a@content}>{% endif %}", "<{{ a@content }}>"]


@each_row("script", [*PLACES, "{% for n in [1] %}<{{ a@content }}>{% endfor %}"])
async def test_a_transform_and_a_message_do_not_interpret_the_result(script: str) -> None:
    transform = {"t": node("StringTransform", {"method": "merge", "script": script}, ["out"])}
    assert f"<{HOSTILE}>" in await answer_of(HOSTILE, transform, "{t@result}")
    other = {"v": node("VariableAssigner", {"variables": []}, ["out"])}
    assert f"<{HOSTILE}>" in await answer_of(HOSTILE, other, script)


async def test_a_prompt_of_another_model_contains_the_unchanged_result() -> None:
    model = ScriptedModel([ASK, Reply(HOSTILE), Reply("done")])
    components = {
        "a": node("Agent", AGENT, ["l"]),
        "l": node("LLM", {"llm_id": "m@T", "sys_prompt": "S {a@content}", "prompts": "P {a@content}"}, ["out"]),
        "out": node("Message", {"content": ["{l@content}"]}),
    }
    runner = runner_of(components, services=fake_services(models=OneModel(model)), catalog=CATALOG)
    async for _ in runner.start("s", {"query": "QUERY"}):
        pass
    request = model.requests[-1][1]
    assert request.system == f"S {HOSTILE}"
    assert request.messages[-1]["content"] == f"P {HOSTILE}"


async def test_nested_agents_and_canvases_get_the_unchanged_result() -> None:
    helper = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@T", "sys_prompt": "H"}}
    inner = canvas({"m": node("Message", {"content": ["{sys.query}|{begin@note}"]})})
    inner["components"]["begin"]["obj"]["params"] = {"inputs": {"note": {"type": "line", "optional": True}}}
    replies = [
        tool_calls(("Helper_0", {"user_prompt": HOSTILE}), ("Canvas_1", {"query": HOSTILE, "note": HOSTILE})),
        Reply(HOSTILE),
        Reply("ok"),
    ]
    tools = [helper, entry("Canvas", canvas="c")]
    turn = await play_agent(replies, {"tools": tools}, deployment=Canvases({"c": inner}), is_shown=False)
    assert turn.model.requests[1][1].messages[-1]["content"] == HOSTILE
    assert turn.tool_results == [HOSTILE, f"{HOSTILE}|{HOSTILE}"]
    turn = await play_agent([ASK, Reply("ok")], {"tools": [entry("Hostile")]}, catalog=CATALOG)
    assert turn.tool_results == [HOSTILE]
    assert turn.model.requests[1][1].system == turn.model.requests[0][1].system
