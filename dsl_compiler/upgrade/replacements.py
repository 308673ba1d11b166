"""What each old component becomes today. A component that needs no change keeps its name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.editor_graph import EditorNode
from ragflow_lg.dsl_compiler.upgrade.inputs import QUESTION, Inputs
from ragflow_lg.dsl_compiler.upgrade.old_canvas import OldCanvas, OldNode

REMOVED_TOOLS = {"Baidu": "DuckDuckGo", "Bing": "DuckDuckGo"}
"""Searches that no version of RAGFlow offers any more, each with one that needs no key either."""

_SAMPLING = {
    "temperature": "temperatureEnabled",
    "top_p": "topPEnabled",
    "presence_penalty": "presencePenaltyEnabled",
    "frequency_penalty": "frequencyPenaltyEnabled",
    "max_tokens": "maxTokensEnabled",
}

_INTERNAL = frozenset(["inputs", "output", "outputs", "query"])
"""Parameters with the names of today's, but another meaning."""

_STOPPING = frozenset(["ExeSQL", "Retrieval"])
"""Tools whose failure ended a turn of the old engine. After any other the turn went on."""

TEXTS: Mapping[str, Mapping[str, str]] = tomllib.loads((Path(__file__).parent / "texts.toml").read_text("utf-8"))
"""The prompts of new nodes, and notes about replacements by the name of the old component."""

_PROMPTS = TEXTS["prompts"]


@dataclass(frozen=True)
class Context:
    """What replacements need to know of the canvas."""

    canvas: OldCanvas
    inputs: Inputs
    catalog: Registry
    asked: frozenset[str]
    """Nodes that run after a question of the user. The others run at the start, and may have none."""

    def user_prompt(self, node: OldNode) -> str:
        """Return the message of the user that a model of this node receives."""
        return QUESTION if node.id in self.asked else "Output:"


Replacement = Callable[[OldNode, Context], list[EditorNode]]


def replace_node(node: OldNode, context: Context) -> list[EditorNode]:
    """Return the nodes of today that do what an old one did, in the order in which they run."""
    replace = _REPLACEMENTS.get(node.name, _replace_tool)
    nodes = replace(node, context)
    for new in nodes:
        new.parent, new.near = node.parent, node.id
        new.title = new.title or node.title
    return nodes


def _begin(node: OldNode, context: Context) -> list[EditorNode]:
    fields = {
        as_text(entry.get("key")): {
            "name": as_text(entry.get("name")) or as_text(entry.get("key")),
            "optional": entry.get("optional") is True,
            "options": as_list(entry.get("options")),
            "type": as_text(entry.get("type")).replace("url", "line") or "line",
            "value": entry.get("value", ""),
        }
        for entry in map(as_map, as_list(node.params.get("query")))
        if as_text(entry.get("key"))
    }
    prologue = as_text(node.params.get("prologue"))
    params = {"enablePrologue": True, "inputs": fields, "mode": "conversational", "prologue": prologue}
    return [EditorNode(node.id, "Begin", params)]


def _generate(node: OldNode, context: Context) -> list[EditorNode]:
    return [_model(node, context.inputs.fill(node), context.user_prompt(node))]


def _keywords(node: OldNode, context: Context) -> list[EditorNode]:
    count = node.params.get("top_n")
    prompt = _PROMPTS["keywords"].format(count=count if isinstance(count, int) else 1)
    return [_model(node, prompt, context.inputs.input_text(node), window=1, cites=False)]


def _rewrite(node: OldNode, context: Context) -> list[EditorNode]:
    language = as_text(node.params.get("language"))
    prompt = _PROMPTS["rewrite"].format(language=f", in the language {language!r}" if language else "")
    model = _model(node, prompt, QUESTION, cites=False)
    assignment = {"variable": "sys.query", "operator": "overwrite", "parameter": f"{node.id}@content"}
    title = f"{node.title or node.id}: use it"
    return [model, EditorNode(f"{node.id}Question", "VariableAssigner", {"variables": [assignment]}, title=title)]


def _translate(node: OldNode, context: Context) -> list[EditorNode]:
    pair = [as_text(node.params.get(key)) for key in ("source_lang", "target_lang")]
    direction = f" from {pair[0]!r} to {pair[1]!r}" if all(pair) else ""
    return [
        _model(
            node,
            _PROMPTS["translate"].format(direction=direction),
            context.inputs.input_text(node),
            window=1,
            cites=False,
        )
    ]


def _model(
    node: OldNode, system: str, user: str, window: int | None = None, *, cites: bool | None = None
) -> EditorNode:
    kept = {key: node.params[key] for key in ("llm_id", "cite", "message_history_window_size") if key in node.params}
    if window is not None:
        kept["message_history_window_size"] = window
    if cites is not None:
        kept["cite"] = cites
    params = {
        **kept,
        **_sampling(node),
        "outputs": {"content": {"type": "string", "value": ""}},
        "prompts": [{"content": user, "role": "user"}],
        "sys_prompt": system,
    }
    return EditorNode(node.id, "LLM", params)


def _sampling(node: OldNode) -> dict[str, Any]:
    """Return the sampling values. The old engine sent those above zero; today each one needs its switch."""
    values = {key: node.params.get(key) for key in _SAMPLING}
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float) and value}
    return numbers | {_SAMPLING[key]: True for key in numbers}


def _relevant(node: OldNode, context: Context) -> list[EditorNode]:
    script = f"Question: {QUESTION}\nDocuments:\n{context.inputs.input_text(node)}"
    text = _text_node(f"{node.id}Text", script, f"{node.title or node.id}: text")
    categories = {
        route: {"description": TEXTS["relevant"][route], "examples": [], "to": list(context.canvas.follow((target,)))}
        for route, target in node.routes.items()
    }
    return [text, _categorize_node(node, categories, f"{node.id}Text@result")]


def _categorize(node: OldNode, context: Context) -> list[EditorNode]:
    categories: dict[str, Any] = {}
    for name, value in as_map(node.params.get("category_description")).items():
        category = as_map(value)
        examples = category.get("examples")
        lines = examples.split("\n") if isinstance(examples, str) else as_texts(examples)
        categories[name] = {
            "description": as_text(category.get("description")),
            "examples": [line for line in lines if line.strip()],
            "to": list(context.canvas.follow(as_texts(category.get("to")))),
        }
    inputs = context.inputs.inputs_of(node)
    if len(inputs) == 1 and inputs[0].startswith("{"):
        return [_categorize_node(node, categories, inputs[0].strip("{}"))]
    text = _text_node(f"{node.id}Text", "\n".join(inputs), f"{node.title or node.id}: text")
    return [text, _categorize_node(node, categories, f"{node.id}Text@result")]


def _categorize_node(node: OldNode, categories: Mapping[str, Any], query: str) -> EditorNode:
    params = {
        "category_description": dict(categories),
        "llm_id": as_text(node.params.get("llm_id")),
        "message_history_window_size": 1,
        "query": query,
        **_sampling(node),
    }
    return EditorNode(node.id, "Categorize", params, title=node.title)


def _switch(node: OldNode, context: Context) -> list[EditorNode]:
    conditions = [
        {
            "items": [_condition_item(as_map(item), context) for item in as_list(condition.get("items"))],
            "logical_operator": as_text(condition.get("logical_operator")) or "or",
            "to": list(context.canvas.follow(as_texts(condition.get("to")))),
        }
        for condition in map(as_map, as_list(node.params.get("conditions")))
    ]
    otherwise = list(context.canvas.follow(as_texts(node.params.get("end_cpn_id"))))
    return [EditorNode(node.id, "Switch", {"conditions": conditions, "end_cpn_ids": otherwise})]


def _condition_item(item: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reference = context.inputs.text_of(as_text(item.get("cpn_id"))).strip("{}")
    return {"cpn_id": reference, "operator": as_text(item.get("operator")), "value": item.get("value", "")}


def _message(node: OldNode, context: Context) -> list[EditorNode]:
    texts = as_texts(node.params.get("messages")) or as_texts(node.params.get("content"))
    return [EditorNode(node.id, "Message", {"content": list(texts)})]


def _template(node: OldNode, context: Context) -> list[EditorNode]:
    return [_text_node(node.id, context.inputs.fill(node), node.title)]


def _text_node(id_: str, script: str, title: str) -> EditorNode:
    params = {
        "delimiters": ["\n"],
        "method": "merge",
        "outputs": {"result": {"type": "string", "value": ""}},
        "script": script,
    }
    return EditorNode(id_, "StringTransform", params, title=title)


def _iteration(node: OldNode, context: Context) -> list[EditorNode]:
    title = node.title or node.id
    texts = list(context.inputs.inputs_of(node))
    delimiter = as_text(node.params.get("delimiter")) or ","
    first: list[EditorNode] = []
    source = texts[0].strip("{}")
    if len(texts) > 1 or not texts[0].startswith("{"):
        source = f"{node.id}Source@result"
        first = [_text_node(f"{node.id}Source", delimiter.join(texts), f"{title}: text")]
    split: dict[str, Any] = {
        "delimiters": [delimiter],
        "method": "split",
        "outputs": {"result": {"type": "Array<string>", "value": []}},
        "split_ref": source,
    }
    leaves = [child for child in context.canvas.children(node.id) if not context.canvas.targets(child.id)]
    outputs = {
        f"texts{number or ''}": {"ref": context.inputs.text_of(leaf.id).strip("{}"), "type": "Array<string>"}
        for number, leaf in enumerate(leaf for leaf in leaves if leaf.name != "IterationItem")
    }
    params = {"items_ref": f"{node.id}Items@result", "outputs": outputs}
    joined = "\n".join(f"{{{node.id}@{name}}}" for name in outputs)
    return [
        *first,
        EditorNode(f"{node.id}Items", "StringTransform", split, title=f"{title}: items"),
        EditorNode(node.id, "Iteration", params),
        _text_node(f"{node.id}Text", joined or " ", f"{title}: result"),
    ]


def _invoke(node: OldNode, context: Context) -> list[EditorNode]:
    variables = [
        {"key": as_text(entry.get("key")), **_value_or_reference(entry, context)}
        for entry in map(as_map, as_list(node.params.get("variables")))
    ]
    [new] = _replace_tool(node, context)
    new.params["variables"] = variables
    return [new]


def _code(node: OldNode, context: Context) -> list[EditorNode]:
    entries = map(as_map, as_list(node.params.get("arguments")))
    arguments = {
        as_text(entry.get("name")): context.inputs.text_of(as_text(entry.get("component_id"))).strip("{}")
        for entry in entries
    }
    params = {
        "arguments": arguments,
        "lang": as_text(node.params.get("lang")) or "python",
        "outputs": {"result": {"type": "string", "value": ""}},
        "script": as_text(node.params.get("script")),
    }
    return [EditorNode(node.id, "CodeExec", params)]


def _value_or_reference(entry: Mapping[str, Any], context: Context) -> dict[str, Any]:
    source = as_text(entry.get("component_id"))
    return {"ref": context.inputs.text_of(source).strip("{}")} if source else {"value": entry.get("value", "")}


def _replace_tool(node: OldNode, context: Context) -> list[EditorNode]:
    """Return a tool or a Retrieval with the parameters that it still has, and its input as a parameter."""
    name = REMOVED_TOOLS.get(node.name, node.name)
    spec = context.catalog.get(name)
    if spec is None:
        return [EditorNode(node.id, name, dict(node.params))]
    need = spec.tool.needs if spec.tool is not None else ""
    if not need or as_text(node.params.get(need)):  # it is written as today
        return [EditorNode(node.id, spec.name, dict(node.params))]
    known = spec.params.model_fields
    params = {key: value for key, value in node.params.items() if key in known and key not in _INTERNAL}
    if node.name == "ExeSQL" and "top_n" in node.params:
        params["max_records"] = node.params["top_n"]
    params[need] = context.inputs.input_text(node)
    if node.name not in _STOPPING:
        params["exception_method"] = "goto"
    return [EditorNode(node.id, spec.name, params)]


_REPLACEMENTS: dict[str, Replacement] = {
    "BaiduFanyi": _translate,
    "Begin": _begin,
    "Categorize": _categorize,
    "Code": _code,
    "Generate": _generate,
    "Invoke": _invoke,
    "Iteration": _iteration,
    "IterationItem": lambda node, context: [EditorNode(node.id, "IterationItem", {})],
    "Keyword": _keywords,
    "KeywordExtract": _keywords,
    "Message": _message,
    "Relevant": _relevant,
    "RewriteQuestion": _rewrite,
    "Switch": _switch,
    "Template": _template,
}
