"""Uses of references in Jinja templates that give another result if their values are text.

In RAGFlow every value in a template is text, so ``{% if {env.n} == "5" %}`` is true for the number 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jinja2 import TemplateError, nodes

from ragflow_lg.dsl.templates.render import name_references, parse
from ragflow_lg.dsl.variable_references import Reference, Template

_TEXT_METHODS = frozenset(name for name in dir(str) if not name.startswith("_"))
_LENGTHS = frozenset({"length", "count"})


class TextUse(NamedTuple):
    """A use of a reference. ``is_test``: only the value's truth matters, which text has unless it is empty."""

    reference: Reference
    description: str
    is_test: bool = False


def find_text_uses(template: Template) -> list[TextUse]:
    """Return these uses, in order; an empty list for an invalid template."""
    try:
        tree = parse(template)
    except (TemplateError, MemoryError, RecursionError, SyntaxError, ValueError):
        return []
    by_text = {reference.text: reference for reference in template.references}
    by_name = {name: by_text[text] for text, name in name_references(template).items()}
    uses: dict[TextUse, None] = {}
    for node in tree.find_all(nodes.Node):
        operands, description = _read_text_use(node)
        tested = _tested_operands(node)
        for name in _names(operands):
            if name in by_name:
                uses[TextUse(by_name[name], description)] = None
        for name in _names(tested):
            if name in by_name:
                uses[TextUse(by_name[name], "is tested", is_test=True)] = None
    return list(uses)


def _read_text_use(node: nodes.Node) -> tuple[Sequence[nodes.Node], str]:
    """Return the operands that a node uses as text, and how; no operands if it does not."""
    if isinstance(node, nodes.Compare):
        operands = [node.expr, *(operand.expr for operand in node.ops)]
        return (operands, "is compared with text") if any(map(_is_text, operands)) else ((), "")
    if isinstance(node, nodes.Add):
        operands = [node.left, node.right]
        return (operands, "is added to text") if any(map(_is_text, operands)) else ((), "")
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        method = node.node.attr
        return ([node.node.node], f"has its method {method}() called") if method in _TEXT_METHODS else ((), "")
    if isinstance(node, nodes.Filter) and node.name in _LENGTHS and node.node is not None:
        return [node.node], "has its length measured"
    if isinstance(node, nodes.Filter) and node.name == "tojson" and node.node is not None:
        return [node.node], "is written as JSON"
    return (), ""


def _tested_operands(node: nodes.Node) -> Sequence[nodes.Node]:
    if isinstance(node, nodes.If | nodes.CondExpr):
        return [node.test]
    if isinstance(node, nodes.Not):
        return [node.node]
    return [node.left, node.right] if isinstance(node, nodes.And | nodes.Or) else ()


def _is_text(node: nodes.Node) -> bool:
    """Return whether an operand is a text literal, or a list of them."""
    if isinstance(node, nodes.List | nodes.Tuple):
        return any(map(_is_text, node.items))
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


def _names(operands: Sequence[nodes.Node]) -> Iterator[str]:
    return (node.name for node in operands if isinstance(node, nodes.Name))
