"""Canvases with every region and strategy, and replies of models, for runs that are taken over."""

import json
from typing import Any

from ragflow_lg.models.prompt_texts import COMPLETE_TASK
from tests.fakes.canvas import node, text
from tests.fakes.regions import form, iteration, loop
from tests.fakes.services import Reply

WIKI = {"component_name": "Wikipedia", "params": {"top_n": 1}}


def _streamed(match: str, *pieces: str) -> Reply:
    chunks = pieces or ("one ", "two ", "three")
    return Reply(chunks=chunks, reasoning="Hm.", match=match, repeat=True, pause_s=0.001)


def _llm(prompt: str, *downstream: str, **more: Any) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@Test", "prompts": [{"role": "user", "content": prompt}]}, downstream, **more)


def _message(content: str, *downstream: str, **more: Any) -> dict[str, Any]:
    return node("Message", {"content": [content]}, downstream, **more)


def _agent(*downstream: str, **params: Any) -> dict[str, Any]:
    params = {"llm_id": "m@Test", "prompts": "{sys.query}", "tools": [WIKI], "cite": False, **params}
    return node("Agent", params, downstream)


INVOKE: dict[str, Any] = {"url": "http://wiki.test/x", "method": "get", "variables": []}
AGENT = {"a": _agent("out"), "out": _message("{a@content}")}
BEGIN = {"begin": node("Begin", {"mode": "task", "inputs": {"items": {"name": "items", "type": "object"}}}, ["it"])}

VARIABLES = {"items": {"name": "items", "type": "array<string>", "value": ["a", "b", "c"]}}
ITEM_BODY = {"l": _llm("p1", "m"), "m": _message("{l@content} of {item} ", "t"), "t": text([], "{item}")}


def _items_in_rounds() -> dict[str, Any]:
    inner = iteration(ITEM_BODY, {"r": "t@result"}, items="env.items")
    inner["it"] |= {"parent_id": "lp", "downstream": []}
    return {**loop({"first": _message("Round: ", "it")}, count=2), **inner, "out": _message("end")}


CANVASES: dict[str, tuple[dict[str, Any], Any]] = {
    "models in turn": (
        {
            "l1": _llm("p1", "m1"),
            "m1": _message("First: {l1@content}.", "call"),
            "call": node("Invoke", INVOKE, ["l2"]),
            "l2": _llm("p2", "m2"),
            "m2": _message("{l2@content}", "t"),
            "t": text([], "{l2@content}"),
        },
        None,
    ),
    "two models": (
        {"l1": _llm("p1", "m"), "l2": _llm("p2", "m"), "m": _message("{l1@content} and {l2@content}")},
        ["l1", "l2"],
    ),
    "two messages": (
        {
            "l1": _llm("p1", "m1"),
            "m1": _message("{l1@content}"),
            "t": text(["m2"], "t"),
            "m2": _message("plain {t@result}", "l3"),
            "l3": _llm("p3", "m3"),
            "m3": _message("{l3@content}"),
        },
        ["l1", "t"],
    ),
    "items": (
        {
            **BEGIN,
            **iteration(
                {"l": _llm("p1", "m"), "m": _message("{l@content} ", "t"), "t": text([], "{item}")}, {"r": "t@result"}
            ),
            "out": _message("end"),
        },
        None,
    ),
    "rounds": (
        {
            **loop({"l": _llm("p1", "m"), "m": _message("{l@content} ", "t"), "t": text([], "x")}, count=3),
            "out": _message("end"),
        },
        None,
    ),
    "agent": (AGENT, None),
    "react": ({**AGENT, "a": _agent("out", strategy="react")}, None),
    "items in rounds": (_items_in_rounds(), None),
    "items side by side": (
        {**iteration(ITEM_BODY, {"r": "t@result"}, items="env.items", max_concurrency=2), "out": _message("{it@r}")},
        None,
    ),
    "plan": ({**AGENT, "a": _agent("out", strategy="plan_and_reflect")}, None),
    "form in rounds": (
        {**loop({"ask": form("w", downstream=["l"]), "l": _llm("p1", "m"), "m": _message("{l@content}")}, count=2)}
        | {"out": _message("end")},
        None,
    ),
    "form": ({"l": _llm("p1", "m"), "m": _message("{l@content}", "ask"), "ask": form("w")}, None),
}


PLAN: list[Any] = [
    {"name": "wikipedia_search_0", "arguments": {"query": "Laos"}},
    {"name": COMPLETE_TASK, "arguments": {}},
]


def replies_of(name: str) -> list[Reply]:
    """Return replies that depend only on the request, as those of a model do that is asked again."""
    call = {"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}
    first_call = Reply("Let me look.", match="question", calls=[call], repeat=True, reasoning="Which?")
    final = ["It is ", "Vientiane."]
    if name == "react":
        first_call = Reply(f"<tool_call>{json.dumps(call)}</tool_call>", match="question", repeat=True)
    if name == "plan":
        first_call = Reply(json.dumps(PLAN), match="You plan the next step", repeat=True)
    others = [_streamed(f"p{number}") for number in (1, 2, 3)]
    return [*([first_call] if name == "plan" else []), _streamed("Vientiane is", *final), first_call, *others]


UNORDERED = ("items side by side",)
"""Canvases whose frames have no fixed order."""
