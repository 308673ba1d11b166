"""The rule that what a Message has sent is what it has stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.component.plan import Plan


class _Shown:
    """The text of a Message. Thinking that a model has not opened is sent, but not stored."""

    def __init__(self, text: str = "") -> None:
        self.parts: list[tuple[bool, str]] = []
        self._is_thinking = False
        for part in split_thinking(text):
            self.add({"content": part.text, f"{part.mark}_to_think": True})

    def add(self, frame: Mapping[str, Any]) -> None:
        self._is_thinking = (self._is_thinking or "start_to_think" in frame) and "end_to_think" not in frame
        if not self.parts or self.parts[-1][0] is not self._is_thinking:
            self.parts.append((self._is_thinking, ""))
        self.parts[-1] = (self._is_thinking, self.parts[-1][1] + frame["content"])

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)

    def agrees_with(self, content: Any) -> bool:
        """Return whether the content is the text, perhaps without some of its thinking."""
        if content == self.text:
            return True
        rests = {content} if isinstance(content, str) else set[str]()
        for is_thinking, text in self.parts:
            shorter = {rest.removeprefix(text) for rest in rests if rest.startswith(text)}
            rests = shorter | (rests if is_thinking else set[str]())
        return "" in rests


def find_shown_problems(frames: Sequence[Mapping[str, Any]], state: Mapping[str, Any] | None, plan: Plan) -> list[str]:
    """Return the differences between the text of each Message, the output that it reports, and the stored output.

    There is no ``state`` to compare if the run was stopped.
    """
    problems: list[str] = []
    contents: dict[str, Any] = {}
    shown, is_ended = _Shown(), False
    for frame in frames:
        kind = frame["event"]
        if kind == "message":
            shown, is_ended = _Shown() if is_ended else shown, False
            shown.add(frame)
        elif kind == "message_reset":
            shown, is_ended = _Shown(frame["content"]), False
        elif kind == "message_end":
            shown, is_ended = _Shown() if is_ended else shown, True
        elif kind == "node_finished" and frame["component_type"] == "Message":
            node, content = frame["component_id"], frame["outputs"].get("content")
            if not shown.agrees_with("" if frame["error"] and content is None else content):
                problems.append(f"{node} has sent {shown.text!r} and reports {content!r}")
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
