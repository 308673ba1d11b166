from typing import Annotated, Any

import pytest
from langgraph.graph import START

from ragflow_lg.ejected import Join, JoiningGraph, Outputs, Services, StateUpdate, TurnState, output, variable
from tests.fakes.services import fake_services


class State(TurnState, total=False):
    start: Outputs
    choose: Outputs
    left: Outputs
    right: Outputs
    beside: Outputs
    last: Outputs
    join_last: Annotated[
        dict[str, Any],
        Join(
            "last",
            ["left", "right", "beside"],
            {"choose": ["start"], "left": ["choose"], "right": ["choose"], "beside": ["start"]},
            ["start", "choose", "left", "right", "beside"],
        ),
    ]


async def start(state: State) -> StateUpdate:
    return {"start": {"x": 1}}


async def choose(state: State) -> StateUpdate:
    return {"choose": {"_next": variable(state, "env.next")}}


def route(state: State) -> list[str]:
    return output(state, "choose", "_next", default=[])


async def left(state: State) -> StateUpdate:
    return {"left": {"x": 1}}


async def right(state: State) -> StateUpdate:
    return {"right": {"x": 1}}


async def beside(state: State) -> StateUpdate:
    return {"beside": {"x": 1}}


async def last(state: State) -> StateUpdate:
    runs = state.get("last", {}).get("runs", 0)
    seen = [name for name in ("left", "right", "beside") if state.get(name)]
    return {"last": {"runs": runs + 1, "seen": seen}}


def build() -> JoiningGraph[State]:
    builder = JoiningGraph(State, Services, first="start")
    for name, function in {
        "start": start,
        "choose": choose,
        "left": left,
        "right": right,
        "beside": beside,
        "last": last,
    }.items():
        builder.add_node(name, function)
    builder.add_edge(START, "start")
    builder.add_edge("start", "choose")
    builder.add_edge("start", "beside")
    builder.add_conditional_edges("choose", route, ["left", "right", "last"])
    for name in ("left", "right", "beside"):
        builder.add_edge(name, "last")
    return builder


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        (["left"], ["left", "beside"]),
        (["right"], ["right", "beside"]),
        (["left", "right"], ["left", "right", "beside"]),
    ],
)
async def test_a_join_runs_once_after_all_that_can_still_arrive(chosen: list[str], seen: list[str]) -> None:
    graph: Any = build().compile()
    final = await graph.ainvoke({"variables": {"env.next": chosen}}, context=fake_services())
    assert final["last"] == {"runs": 1, "seen": seen}


async def test_a_join_does_not_wait_for_a_branch_that_leads_nowhere() -> None:
    graph: Any = build().compile()
    final = await graph.ainvoke({"variables": {"env.next": []}}, context=fake_services())
    assert final["last"] == {"runs": 1, "seen": ["beside"]}
