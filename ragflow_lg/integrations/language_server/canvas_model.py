"""What the compiler knows about a canvas, in the words that an editor shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

from msgspec import Struct
from pydantic import BaseModel

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.parameter_help import ParameterHelp, parameters_of
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.spec import AnySpec, ComponentParams
from ragflow_lg.dsl.value_types import Schema, type_name
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.readable_values import ReadableValue, ReadableValues

MAX_TITLE_CHARS = 200
_TYPES = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list", "object": "object"}


class CanvasModel(Struct, frozen=True, dict=True):
    """A canvas of today whose components could be read; it may have errors."""

    draft: Draft

    @cached_property
    def values(self) -> ReadableValues:
        """The values that its nodes can read."""
        return ReadableValues(self.draft)

    def node(self, id_: str) -> PlanNode | None:
        """Return a node whose params could be read."""
        return self.draft.nodes.get(NodeId(id_))

    def spec(self, id_: str) -> AnySpec | None:
        """Return what the catalog knows about the component of a node."""
        return self.draft.specs.get(id_)

    def title(self, id_: str) -> str:
        """Return the title of a node, or else its id."""
        raw = self.draft.components.get(id_)
        return one_line((raw.title if raw is not None else "") or id_)

    def readable_by(self, id_: str) -> Iterable[ReadableValue]:
        """Return what a node can read."""
        node = self.node(id_)
        return () if node is None else self.values.readable_by(node)


@lru_cache(maxsize=512)
def parameters(model: type[BaseModel]) -> Sequence[ParameterHelp]:
    """Return the parameters of a component, those of every component last."""
    common = ComponentParams.model_fields
    return tuple(sorted(parameters_of(model), key=lambda parameter: parameter.name in common))


def find_parameter(spec: AnySpec, path: Sequence[str]) -> ParameterHelp | None:
    """Return the parameter, or the nested key, at a path within the params."""
    choices, found = parameters(spec.params), None
    for name in path:
        if found is not None and name.isdigit():
            continue
        known = next((one for one in choices if one.name == name), None)
        if known is None:
            return found if found is not None and not found.inside else None
        found, choices = known, known.inside
    return found


def describe_type(schema: Schema) -> str:
    """Return a type in words, or ``""`` if it is unknown.

    >>> describe_type({"type": "array", "items": {"type": "string"}})
    'list of text'
    """
    name = type_name(schema)
    word = _TYPES.get(name, name)
    if name != "array":
        return word
    items = schema.get("items")
    inner = describe_type(cast("Schema", items)) if isinstance(items, Mapping) else ""
    return f"{word} of {inner}" if inner else word


def nested_entries(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the entries that an object is known to have."""
    properties: Any = schema.get("properties") if type_name(schema) == "object" else None
    if isinstance(properties, Mapping):
        for name, inner in cast("Mapping[str, Any]", properties).items():
            yield name, cast("Schema", inner) if isinstance(inner, Mapping) else {}


def one_line(text: str) -> str:
    """Return a text of a canvas for a line of the editor."""
    return " ".join(text.split())[:MAX_TITLE_CHARS].encode("utf-8", "replace").decode()
