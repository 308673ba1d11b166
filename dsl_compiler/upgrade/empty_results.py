"""Answers without a model: the old engine showed ``empty_response`` if a Retrieval found nothing."""

from __future__ import annotations

from ragflow_lg.dsl_compiler.editor_graph import EditorNode
from ragflow_lg.dsl_compiler.lenient_values import as_text
from ragflow_lg.dsl_compiler.upgrade.inputs import Inputs
from ragflow_lg.dsl_compiler.upgrade.new_canvas import NewCanvas
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
