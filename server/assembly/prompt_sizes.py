"""Prompts that cannot fit into the window of their model, whatever the values of their references are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.spec import PromptText
from ragflow_lg.dsl_compiler import extend_pointer
from ragflow_lg.models.prompts import CONTEXT_SHARE

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

MIN_TOKENS = 500
"""Shorter texts are not compared with the window, for which the settings would have to be loaded."""


class _Request(NamedTuple):
    node: PlanNode
    """The node of the canvas that sends it, or whose tool does."""
    llm_id: str
    tokens: int
    pointer: str
    """JSON pointer to the longest of its texts."""


def check_prompt_sizes(plan: Plan, settings: Callable[[], Settings]) -> list[Diagnostic]:
    """Warn about prompts that are too long for their model even if all references in them are empty.

    The engine sends only a part of them. Texts and windows are measured as `ragflow_lg.models.prompts.fit_context`
    measures them. Models that the settings lack are left out, and so are the canvases that a canvas runs.
    """
    requests = [request for request in _requests(plan) if request.tokens >= MIN_TOKENS]
    if not requests:
        return []
    from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels

    models = ConfiguredModels(settings().chat_settings())
    found: list[Diagnostic] = []
    for request in requests:
        try:
            window = models.model(request.llm_id).context_tokens
        except SettingsError:  # a missing model is reported elsewhere
            continue
        room = int(window * CONTEXT_SHARE)
        if request.tokens > room:
            found.append(_describe(request, window, room))
    return found


def _requests(plan: Plan) -> Iterator[_Request]:
    for node in plan.nodes.values():
        for part in node.with_tools():
            is_tool = part is not node
            texts: list[PromptText] = [
                text for text in part.spec.prompt_texts(part.params) if text.is_sent_by_tool or not is_tool
            ]
            model = next((r for r in part.spec.requires(part.params) if r.kind == "model"), None)
            if not texts or model is None:
                continue
            longest = max(texts, key=lambda text: len(text.text))
            inside = ["params"] if is_tool else ["obj", "params"]
            pointer = extend_pointer(part.pointer, [*inside, *longest.path])
            yield _Request(node, model.name, sum(estimate_tokens(text.text) for text in texts), pointer)


def _describe(request: _Request, window: int, room: int) -> Diagnostic:
    model = request.llm_id or "the default model"
    return Diagnostic(
        "prompt-too-long",
        "warning",
        request.pointer,
        f"The prompts have about {request.tokens:,} tokens without the values in them; a request to {model} has room "
        f"for {room:,}, so a part of them is never sent.",
        f"Shorten them, choose another model, or correct its context_tokens in the settings, which is {window:,}.",
        request.node.id,
        request.node.title,
    )
