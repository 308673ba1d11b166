"""Conditions of ``rules/models.toml``: what is sent to models. Each has the name of its rule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ragflow_lg.base.lenient_values import as_map, as_text, as_texts
from ragflow_lg.dsl_compiler.ragflow_1.examined_canvas import REMOVED, Canvas, Edit, Hit, Node, Params, texts_at
from ragflow_lg.dsl_compiler.ragflow_1.rules import NAMES

_SWITCHES = {"temperature": "temperatureEnabled", "top_p": "topPEnabled", "max_tokens": "maxTokensEnabled"}
"""Sampling values that 1.0 sends, and what switches each of them on in 0.27."""

_PENALTIES = {"presence_penalty": "presencePenaltyEnabled", "frequency_penalty": "frequencyPenaltyEnabled"}

_DEFAULT_USER_PROMPT = "This is the order you need to send to the agent."


_RETRIEVAL_TOOLS = ("retrieval", "searchmydataset", "search_my_dataset", "search_my_dateset")


def sampling_flags_ignored(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("LLM", "Agent"):
        for key, switch in _SWITCHES.items():
            value = params.values.get(key)
            if isinstance(value, (int, float)) and params.values.get(switch) is not True:
                yield params.hit(key, f"{key} {value} is switched off", params.set(key, REMOVED))


def sampling_as_text(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("LLM", "Agent"):
        for key, switch in (_SWITCHES | _PENALTIES).items():
            number = _as_number(params.values.get(key))
            if number is not None and params.values.get(switch) is True:
                yield params.hit(key, f'{key} is "{params.values[key]}"', params.set(key, number))


def _as_number(value: Any) -> int | float | None:
    if not isinstance(value, str):
        return None
    try:
        number = int(value) if value.strip().isdigit() else float(value)
        return number if math.isfinite(number) else None
    except (ValueError, OverflowError):
        return None


def penalties_not_sent(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("LLM", "Agent"):
        for key, switch in _PENALTIES.items():
            if params.values.get(switch) is True and params.values.get(key):
                yield params.hit(key, f"{key} {params.values[key]}")


def llm_prompts_ignored(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("LLM"):
        if not node.params.text("user_prompt"):
            user = next((text for role, text in _prompts(node.params) if role == "user"), "{sys.query}")
            edits = node.params.set("user_prompt", user) if len(_prompts(node.params)) <= 1 else ()
            yield node.params.hit("prompts", "", edits)


def _prompts(params: Params) -> list[tuple[str, str]]:
    value = params.values.get("prompts")
    if isinstance(value, str):
        return [("user", value)]
    return [
        (as_text(entry.get("role")) or "user", as_text(entry.get("content"))) for entry in params.entries("prompts")
    ]


def agent_user_prompt_wins(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Agent"):
        text = node.params.text("user_prompt")
        if text and text != _DEFAULT_USER_PROMPT:
            edits = node.params.set("user_prompt", "") if _prompts(node.params) else ()
            yield node.params.hit("user_prompt", "", edits)


def agent_prompts_flattened(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Agent"):
        prompts = _prompts(params)
        if len(prompts) > 1 or any(role == "assistant" for role, _ in prompts):
            yield params.hit("prompts", f"{len(prompts)} messages")


def agent_max_rounds(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Agent"):
        if params.values.get("tools") or params.values.get("mcp"):
            yield params.hit("max_rounds", f"{params.values.get('max_rounds', 5)} rounds")


def agent_cite_off(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Agent"):
        if "cite" not in params.values and (_reads_chunks(canvas, params) or _searches(params)):
            yield params.hit("", "", params.set("cite", True))


def _reads_chunks(canvas: Canvas, params: Params) -> bool:
    """Return whether a Retrieval runs before a node."""
    return any(canvas.follows(params.node, node.id) for node in canvas.of("Retrieval"))


def _searches(params: Params) -> bool:
    return any(as_text(tool.get("component_name")).lower() in _RETRIEVAL_TOOLS for tool in params.entries("tools"))


def agent_cite_second_call(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("Agent"):
        if params.values.get("cite") is True and (_reads_chunks(canvas, params) or _searches(params)):
            yield params.hit("cite")


def llm_cite_always(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("LLM"):
        if node.params.values.get("cite") is not False:
            edits = node.params.set("cite", False) if not _has_retrieval(canvas) else ()
            yield node.params.hit("cite" if "cite" in node.params.values else "", "", edits)


def _has_retrieval(canvas: Canvas) -> bool:
    nodes = ("Retrieval", "TavilySearch", "DuckDuckGo", "Google", "Wikipedia", "ArXiv", "PubMed", "GoogleScholar")
    return next(canvas.of(*nodes), None) is not None or any(canvas.tools)


def llm_history(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("LLM"):
        window = node.params.values.get("message_history_window_size")
        if window != 0:
            yield node.params.hit("", f"the window is {'not set' if window is None else window}")


def categorize_history_window(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Categorize"):
        window = node.params.values.get("message_history_window_size")
        if isinstance(window, int) and window > 1:
            yield node.params.hit("message_history_window_size", f"the window is {window}")


def structured_output(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("LLM", "Agent"):
        structured = as_map(as_map(params.values.get("outputs")).get("structured"))
        fields = as_map(structured.get("properties") or as_map(structured.get("value")).get("properties"))
        if fields and "output_structure" not in params.values:
            can = params.component.lower() == "llm"
            kinds = {key: as_text(as_map(field).get("type")) or "string" for key, field in fields.items()}
            yield params.hit("outputs", "", params.set("output_structure", kinds) if can else ())


def sys_files_twice(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("LLM", "Agent"):
        for key in ("sys_prompt", "prompts"):
            for path, text in texts_at(params.values.get(key), (*params.path, key)):
                if "sys.files" in text:
                    yield Hit(path, "", (), params.node)


def prompt_sections(canvas: Canvas) -> Iterator[Hit]:
    for params in canvas.params_of("LLM", "Agent"):
        found = [section for section in NAMES["prompt_sections"] if f"<{section}>" in params.text("sys_prompt")]
        if found:
            yield params.hit("sys_prompt", ", ".join(found))


def categorize_fallback(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Categorize"):
        names = list(as_map(node.params.values.get("category_description")))
        if names and "default_category" not in node.params.values and min(names) != names[-1]:
            detail = f"{min(names)!r} in place of {names[-1]!r}"
            edits = node.params.set("default_category", names[-1])
            if node.graph_path:  # the editor's form has the categories as `items`
                edits += (Edit((*node.graph_path, "data", "form", "default_category"), names[-1]),)
            yield node.params.hit("category_description", detail, edits)


def categorize_many_targets(canvas: Canvas) -> Iterator[Hit]:
    for node, name, row in _categories(canvas):
        if len(as_texts(row.get("to"))) > 1:
            yield Hit((*node.params.path, "category_description", name), name, (), node.id)


def categorize_examples_text(canvas: Canvas) -> Iterator[Hit]:
    for node, name, row in _categories(canvas):
        if isinstance(row.get("examples"), str) and row["examples"]:
            yield Hit((*node.params.path, "category_description", name, "examples"), name, (), node.id)


def _categories(canvas: Canvas) -> Iterator[tuple[Node, str, Any]]:
    for node in canvas.of("Categorize"):
        for name, row in as_map(node.params.values.get("category_description")).items():
            yield node, name, as_map(row)


def sub_agent_name(canvas: Canvas) -> Iterator[Hit]:
    yield from (tool.hit() for tool in canvas.tools if tool.component.lower() == "agent")
