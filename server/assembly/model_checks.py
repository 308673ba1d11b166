"""What the model of a node does not get: prompts too long for its window, and parameters that are not sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.base.diagnostics import Diagnostic, Severity
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.dsl_compiler import extend_pointer
from ragflow_lg.models.chat_params import ChatParams
from ragflow_lg.models.prompts import CONTEXT_SHARE

if TYPE_CHECKING:
    from ragflow_lg.component.spec import PromptText
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.chat import ChatModel

MIN_TOKENS = 500
"""Shorter texts are not compared with the window, for which the settings would have to be loaded."""


def check_model_requests(plan: Plan, settings: Callable[[], Settings]) -> list[Diagnostic]:
    """Name what does not reach a model as the canvas says.

    These are prompts that are too long even if all references in them are empty, of which the engine sends a part (both
    are measured as `ragflow_lg.models.prompts.fit_context` measures them), and sampling parameters that RAGFlow does
    not send either or that the API refuses. Models that the settings lack are left out, and so are the canvases that a
    canvas runs.
    """
    parts = [(node, part) for node in plan.nodes.values() for part in node.with_tools()]
    parts = [(node, part) for node, part in parts if _count_tokens(node, part) >= MIN_TOKENS or _samples(part)]
    if not parts:
        return []
    from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels

    models = ConfiguredModels(settings().chat_settings())
    found: list[Diagnostic] = []
    for node, part in parts:
        llm_id = next((each.name for each in part.spec.requires(part.params) if each.kind == "model"), None)
        try:
            model = models.model(llm_id) if llm_id is not None else None
        except SettingsError:  # a missing model is reported elsewhere
            continue
        if model is not None:
            found += [*_check_size(node, part, llm_id or "the default model", model), *_check_params(node, part, model)]
    return found


def _texts(node: PlanNode, part: PlanNode) -> list[PromptText]:
    return [text for text in part.spec.prompt_texts(part.params) if text.is_sent_by_tool or part is node]


def _count_tokens(node: PlanNode, part: PlanNode) -> int:
    return sum(estimate_tokens(text.text) for text in _texts(node, part))


def _samples(part: PlanNode) -> bool:
    return isinstance(part.params, ChatParams) and bool(part.params.sampling)


def _check_size(node: PlanNode, part: PlanNode, name: str, model: ChatModel) -> Iterator[Diagnostic]:
    tokens, window = _count_tokens(node, part), model.context_tokens
    room = int(window * CONTEXT_SHARE)
    if tokens > max(room, MIN_TOKENS - 1):
        longest = max(_texts(node, part), key=lambda text: len(text.text))
        message = (
            f"The prompts have about {tokens:,} tokens without the values in them; a request to {name} has room for "
            f"{room:,}, so a part of them is never sent."
        )
        advice = "Shorten them, choose another model, or correct its context_tokens in the settings"
        advice = f"{advice}, which is {window:,}."
        yield _describe(node, part, longest.path, "prompt-too-long", "warning", message, advice)


def _check_params(node: PlanNode, part: PlanNode, model: ChatModel) -> Iterator[Diagnostic]:
    from ragflow_lg.adapters.chat.openai_chat import OpenAIChat

    if not isinstance(part.params, ChatParams) or not isinstance(model, OpenAIChat):
        return
    for name in model.find_unsent(part.params.sampling):
        reason, advice = "which refuses it or fixes its value.", "Switch it off in the node."
        if name == "max_tokens":
            reason, advice = "as in RAGFlow.", f'Set [models."{model.name}"] sends_max_tokens = true to send it.'
        yield _describe(
            node, part, [name], "param-not-sent", "info", f"{name} is not sent to {model.name}, {reason}", advice
        )


def _describe(
    node: PlanNode, part: PlanNode, path: Sequence[str | int], code: str, severity: Severity, message: str, advice: str
) -> Diagnostic:
    pointer = extend_pointer(part.params_pointer, path)
    return Diagnostic(code, severity, pointer, message, advice, node.id, node.title)
