"""The rule that what a Message has sent is what it has stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Plan


def find_shown_problems(frames: Sequence[Mapping[str, Any]], state: Mapping[str, Any] | None, plan: Plan) -> list[str]:
    """Return the differences between the text of each Message, the output that it reports, and the stored output.

    There is no ``state`` to compare if the run was stopped.
    """
    problems: list[str] = []
    contents: dict[str, Any] = {}
    text, is_ended = "", False
    for frame in frames:
        kind = frame["event"]
        if kind == "message":
            text, is_ended = ("" if is_ended else text) + frame["content"], False
        elif kind == "message_end":
            text, is_ended = "" if is_ended else text, True
        elif kind == "node_finished" and frame["component_type"] == "Message":
            node, content = frame["component_id"], frame["outputs"].get("content")
            if content != text:
                problems.append(f"{node} has sent {text!r} and reports {content!r}")
            if not frame["error"]:
                contents[node] = content
    is_waiting = bool(frames) and frames[-1]["event"] == "user_inputs"
    if state is None:
        return problems
    for node, content in contents.items():
        if (is_waiting and plan.nodes[NodeId(node)].parent) or _is_parallel(plan, node):
            continue  # the state of an open region is stored apart, and of parallel rounds only the last one remains
        stored = state.get("outputs", {}).get(node, {}).get("content")
        if stored != content:
            problems.append(f"{node} reports {content!r} and has stored {stored!r}")
    return problems


def _is_parallel(plan: Plan, node: str) -> bool:
    """Return whether a node is in a region whose rounds run at the same time."""
    parent = plan.nodes[NodeId(node)].parent
    while parent is not None:
        rules = plan.nodes[parent].spec.region
        if rules is not None and rules.max_concurrency(plan.nodes[parent].params) > 1:
            return True
        parent = plan.nodes[parent].parent
    return False
