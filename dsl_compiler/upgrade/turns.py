"""Answers of an old canvas as turns.

The old engine ended a turn at an Answer, which showed the text of the node before it, and the next turn began after
that Answer. Today a turn ends with a Message and each turn begins at Begin. If turns can begin at different places, a
conversation variable stores where the last one ended, and a Switch after Begin reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ragflow_lg.base.lenient_values import as_text, as_texts
from ragflow_lg.dsl_compiler.editor_graph import EditorNode
from ragflow_lg.dsl_compiler.flow import reach
from ragflow_lg.dsl_compiler.upgrade.inputs import Inputs
from ragflow_lg.dsl_compiler.upgrade.new_canvas import NewCanvas, replace_targets
from ragflow_lg.dsl_compiler.upgrade.old_canvas import ROUTERS, OldCanvas, OldNode


def check_results(canvas: OldCanvas, inputs: Inputs, new: NewCanvas) -> None:
    """Put a Switch before each Generate that only answers from what Retrievals found."""
    for node in canvas.nodes.values():
        searches = _searches_before(canvas, inputs, node)
        texts = [as_text(search.params.get("empty_response")).strip() for search in searches]
        if node.name != "Generate" or not any(texts):
            continue
        message = EditorNode(
            empty_answer_of(node.id),
            "Message",
            {"content": ["\n- ".join(filter(None, texts))]},
            title=f"{node.title or node.id}: nothing was found",
            near=node.id,
        )
        items = [{"cpn_id": f"{search.id}@json", "operator": "empty", "value": ""} for search in searches]
        conditions = [{"items": items, "logical_operator": "and", "to": [message.id]}]
        params = {"conditions": conditions, "end_cpn_ids": [node.id]}
        title = f"{node.title or node.id}: was something found?"
        switch = EditorNode(f"{node.id}Found", "Switch", params, parent=node.parent, title=title, near=node.id)
        new.add_before(node.id, switch)
        new.add(message)
        new.connect(switch, [message.id])


def empty_answer_of(id_: str) -> str:
    """Return the id of the Message that a Generate's check may lead to."""
    return f"Message:{''.join(filter(str.isalnum, id_))}Empty"


def _searches_before(canvas: OldCanvas, inputs: Inputs, node: OldNode) -> list[OldNode]:
    """Return the Retrievals that a node reads, or nothing if it goes on after something else or to something else."""
    before = [id_ for id_ in canvas.upstream[node.id] if canvas.nodes[id_].name not in ROUTERS]
    sources = [canvas.nodes[id_] for id_ in inputs.sources_of(node)]
    is_last = bool(canvas.targets(node.id)) and all(canvas.nodes[t].name == "Answer" for t in canvas.targets(node.id))
    only_searches = bool(sources) and all(source.name == "Retrieval" for source in sources)
    return sources if is_last and only_searches and set(before) <= {source.id for source in sources} else []


VARIABLE = "last_answer"
"""The conversation variable ``env.last_answer``: the id of the Answer that ended the last turn."""

SWITCH = "Switch:LastAnswer"


@dataclass(frozen=True)
class OldConversation:
    """Where turns begin and end in an old canvas."""

    canvas: OldCanvas
    inputs: Inputs

    @cached_property
    def starts(self) -> dict[str, tuple[str, ...]]:
        """The nodes with which a turn begins, by the Answer that ended the last one; ``""`` is the first turn."""
        begin = next((node for node in self.canvas.nodes.values() if node.name == "Begin"), None)
        first = self.canvas.targets(begin.id) if begin else ()
        start = self._without_answers(first)
        answers = [id_ for id_ in first if self._is_answer(id_)]
        if not start and answers:  # Begin only showed its prologue
            start = self._without_answers(self.canvas.targets(answers[0]))
        found = {"": start}
        for node in self.canvas.nodes.values():
            if node.name == "Answer":
                found[node.id] = self._without_answers(self.canvas.targets(node.id)) or start
        return found

    @property
    def has_several_starts(self) -> bool:
        """Whether the start of a turn depends on the last one."""
        return len(set(self.starts.values())) > 1

    @cached_property
    def asked(self) -> frozenset[str]:
        """The nodes that can run in a turn that began with a question of the user."""
        begin = [id_ for id_, node in self.canvas.nodes.items() if node.name == "Begin"]
        answers = [id_ for id_, node in self.canvas.nodes.items() if node.name == "Answer"]
        pending = [id_ for answer in answers for id_ in self.canvas.targets(answer)]
        if begin and any(map(self._is_answer, self.canvas.targets(begin[0]))):
            pending += self.starts[""]
        ways = {
            id_: [*self.canvas.targets(id_), *(child.id for child in self.canvas.children(id_))]
            for id_, node in self.canvas.nodes.items()
            if node.name != "Answer"
        }
        return frozenset(reach(ways, pending) - set(answers))

    def add_starts(self, new: NewCanvas) -> None:
        """Connect Begin to the nodes with which a turn begins."""
        begin = next((node for node in new.nodes.values() if node.name == "Begin"), None)
        if begin is None:
            return
        first = [new.entry(id_) for id_ in self.starts[""]]
        if not self.has_several_starts:
            new.connect(begin, first)
            return
        others = {answer: ids for answer, ids in self.starts.items() if answer and ids != self.starts[""]}
        conditions = [
            {
                "items": [{"cpn_id": f"env.{VARIABLE}", "operator": "=", "value": answer}],
                "logical_operator": "and",
                "to": [new.entry(id_) for id_ in ids],
            }
            for answer, ids in others.items()
        ]
        params = {"conditions": conditions, "end_cpn_ids": first}
        switch = new.add(EditorNode(SWITCH, "Switch", params, title="Where the last turn ended", near=begin.id))
        new.variables[VARIABLE] = ""
        new.connect(begin, [switch.id])
        new.connect(switch, dict.fromkeys([*(to for ids in others.values() for to in map(new.entry, ids)), *first]))

    def add_ends(self, new: NewCanvas) -> None:
        """Show what each Answer showed, and store where the turn ended if the next one needs it."""
        for node, answer in self._ends():
            messages = [self._end_message(node, answer, new), new.nodes.get(empty_answer_of(node.id))]
            for message in filter(None, messages if self.has_several_starts else []):
                assignment = {"variable": f"env.{VARIABLE}", "operator": "set", "parameter": answer.id}
                params = {"variables": [assignment]}
                title = f"{message.title or message.id}: end of the turn"
                assigner = EditorNode(f"{message.id}End", "VariableAssigner", params, title=title, near=message.id)
                new.connect(message, [new.add(assigner).id])

    def _ends(self) -> Iterator[tuple[OldNode, OldNode]]:
        for id_, node in self.canvas.nodes.items():
            if node.name not in ("Begin", "Answer"):
                for target in self.canvas.targets(id_):
                    if self._is_answer(target):
                        yield node, self.canvas.nodes[target]

    def _end_message(self, node: OldNode, answer: OldNode, new: NewCanvas) -> EditorNode:
        endings = as_texts(answer.params.get("post_answers")) or ("",)
        if node.name == "Message":
            message = new.exit(node.id)
            message.params["content"] = [text + end for text in message.params["content"] for end in endings]
            return message
        text = self.inputs.input_text(node) if node.name in ROUTERS else self.inputs.text_of(node.id)
        id_ = f"Message:{''.join(filter(str.isalnum, node.id))}{''.join(filter(str.isalnum, answer.id))}"
        title = f"{answer.title or 'Answer'}: {node.title or node.id}"
        message = EditorNode(id_, "Message", {"content": [text + end for end in endings]}, title=title, near=node.id)
        new.add(message)
        if node.name not in ROUTERS:
            new.connect(new.exit(node.id), [id_])
        else:
            replace_targets(new.nodes[node.id], {answer.id: id_})
        return message

    def _without_answers(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(id_ for id_ in ids if not self._is_answer(id_))

    def _is_answer(self, id_: str) -> bool:
        return self.canvas.nodes[id_].name == "Answer"
