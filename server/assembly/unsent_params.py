"""Parameters of a canvas that its model does not get, because RAGFlow does not send them either or the API refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.dsl_compiler import extend_pointer
from ragflow_lg.models.chat_params import ChatParams

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


def check_sent_params(plan: Plan, settings: Callable[[], Settings]) -> list[Diagnostic]:
    """Name the sampling parameters that are not sent as the canvas says. Models that the settings lack are left out."""
    asking = [
        (node, part, part.params)
        for node in plan.nodes.values()
        for part in node.with_tools()
        if isinstance(part.params, ChatParams) and part.params.sampling
    ]
    if not asking:
        return []
    from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
    from ragflow_lg.adapters.chat.openai_chat import OpenAIChat

    models = ConfiguredModels(settings().chat_settings())
    found: list[Diagnostic] = []
    for node, part, params in asking:
        try:
            model = models.model(params.llm_id or "")
        except SettingsError:  # a missing model is reported elsewhere
            continue
        unsent = model.find_unsent(params.sampling) if isinstance(model, OpenAIChat) else []
        found += [_describe(node, part, name, model.name) for name in unsent if isinstance(model, OpenAIChat)]
    return found


def _describe(node: PlanNode, part: PlanNode, name: str, model: str) -> Diagnostic:
    inside = ["obj", "params"] if part is node else ["params"]
    is_limit = name == "max_tokens"
    advice = f'Set [models."{model}"] sends_max_tokens = true to send it.' if is_limit else "Switch it off in the node."
    return Diagnostic(
        "param-not-sent",
        "info",
        extend_pointer(part.pointer, [*inside, name]),
        f"{name} is not sent to {model}, " + ("as in RAGFlow." if is_limit else "which refuses it or fixes its value."),
        advice,
        node.id,
        node.title,
    )
