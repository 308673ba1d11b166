"""The canvas of a chat with datasets, for those who have no canvas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PROMPT = """\
You answer questions from the passages that were found in the user's documents. If they do not contain the answer, say \
so, and add nothing from other knowledge. Answer in the language of the question."""
_RETRIEVAL = {"retrieval_from": "dataset", "similarity_threshold": 0.2, "keywords_similarity_weight": 0.7, "top_n": 8}
_WINDOW = 12


def build_dataset_chat(datasets: Sequence[str], *, has_reasoning: bool = False) -> Mapping[str, Any]:
    """Return a canvas that answers from datasets.

    Args:
        datasets: Names or ids of the datasets.
        has_reasoning: Whether each question is answered by deep research instead of one search.
    """
    search = {**_RETRIEVAL, "dataset_ids": list(datasets)}
    model = {
        "llm_id": "",
        "prompts": [{"role": "user", "content": "{sys.query}"}],
        "cite": True,
        "message_history_window_size": _WINDOW,
    }
    components: dict[str, Any] = {}
    if has_reasoning:
        tool = {"component_name": "Retrieval", "name": "Documents", "params": search}
        components["Agent:Answer"] = _node(
            "Agent",
            {**model, "sys_prompt": PROMPT, "strategy": "deep_research", "tools": [tool]},
            "Message:Reply",
        )
        answer = "{Agent:Answer@content}"
    else:
        passages = f"{PROMPT}\n\nPassages:\n{{Retrieval:Search@formalized_content}}"
        components["Retrieval:Search"] = _node("Retrieval", {**search, "query": "{sys.query}"}, "LLM:Answer")
        components["LLM:Answer"] = _node("LLM", {**model, "sys_prompt": passages}, "Message:Reply")
        answer = "{LLM:Answer@content}"
    first = next(iter(components))
    components["Message:Reply"] = _node("Message", {"content": [answer]})
    begin = _node("Begin", {"mode": "conversational", "prologue": ""}, first)
    return {"components": {"begin": begin, **components}}


def _node(name: str, params: dict[str, Any], *downstream: str) -> dict[str, Any]:
    return {"obj": {"component_name": name, "params": params}, "downstream": list(downstream)}
