"""What the nodes of an old canvas read, as references of DSL v1."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.upgrade.old_canvas import ROUTERS, OldCanvas, OldNode

QUESTION = "{sys.query}"

_OUTPUTS = {
    "Categorize": "category_name",
    "Generate": "content",
    "IterationItem": "item",
    "KeywordExtract": "content",
    "Message": "content",
    "RewriteQuestion": "content",
    "Template": "result",
}
"""The output that holds the text of a component; for tools, the catalog names it."""

_TEXT_OUTPUTS = ("formalized_content", "content", "result", "report", "text")


class Inputs:
    """The inputs of an old canvas's nodes."""

    def __init__(self, canvas: OldCanvas, catalog: Registry, replaced: Mapping[str, str]) -> None:
        self._canvas = canvas
        self._catalog = catalog
        self._replaced = replaced
        """Components of today for removed tools."""

    def text_of(self, source: str) -> str:
        """Return the reference to the text of a component or of a field of Begin (``begin@field``)."""
        id_, _, field = source.partition("@")
        node = self._canvas.nodes.get(id_)
        if node is None:
            return QUESTION if id_.lower().startswith("answer") else ""
        if node.name == "Begin":
            return f"{{{id_}@{field}}}" if field else ""
        if node.name == "Answer":
            return QUESTION
        if node.name == "Iteration":
            return f"{{{id_}Text@result}}"
        return f"{{{id_}@{self._output_of(node.name)}}}"

    def sources_of(self, node: OldNode) -> tuple[str, ...]:
        """Return the ids of the nodes that a node reads, without Begin and Answer."""
        named = [source.partition("@")[0] for source in node.named_sources]
        named += [source.partition("@")[0] for kind, source in node.query if kind == "reference"]
        if not named:
            named = list(self._find_upstream(node.id))
        skipped = ("Answer", "Begin")
        nodes = self._canvas.nodes
        return tuple(dict.fromkeys(id_ for id_ in named if id_ in nodes and nodes[id_].name not in skipped))

    def inputs_of(self, node: OldNode) -> tuple[str, ...]:
        """Return what a node works on: its declared inputs, otherwise the nodes before it, otherwise the question."""
        texts = [self.text_of(source) if kind == "reference" else source for kind, source in node.query]
        if not node.query:
            texts = [self.text_of(id_) for id_ in self._find_upstream(node.id)]
        return tuple(dict.fromkeys(text for text in texts if text)) or (QUESTION,)

    def input_text(self, node: OldNode) -> str:
        """Return the inputs of a node as one text."""
        return "\n".join(self.inputs_of(node))

    def fill(self, node: OldNode) -> str:
        """Return the prompt or template of a node with references of DSL v1."""
        names = {source: self.text_of(source) for source in node.named_sources}
        names |= {key: self.text_of(id_) for key, id_ in node.aliases.items()}
        if not node.named_sources:
            names["input"] = self.input_text(node)

        def replace(match: re.Match[str]) -> str:
            return names.get(match[1]) or match[0]

        return re.sub(r"\{([^{}\n]{1,1000})\}", replace, node.text)

    def _find_upstream(self, id_: str) -> tuple[str, ...]:
        """Return the nodes with a text that lead to a node, looking past routers."""
        found: dict[str, None] = {}
        pending, seen = list(self._canvas.upstream[id_]), {id_}
        while pending:
            current = pending.pop(0)
            if current in seen:
                continue
            seen.add(current)
            if self._canvas.nodes[current].name in ROUTERS:
                pending += self._canvas.upstream[current]
            else:
                found[current] = None
        return tuple(found)

    def _output_of(self, name: str) -> str:
        if name in _OUTPUTS:
            return _OUTPUTS[name]
        spec = self._catalog.get(self._replaced.get(name, name))
        fields = spec.outputs.model_fields if spec is not None else {}
        return next((output for output in _TEXT_OUTPUTS if output in fields), "content")
