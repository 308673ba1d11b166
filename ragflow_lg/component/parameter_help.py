"""Descriptions of a component's parameters as written in a canvas: type, choices, default, nested keys, purpose."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from pydantic import BaseModel

from ragflow_lg.dsl.variable_references import Reference, Template

MAX_LEVELS = 3
"""Maximum depth of nested keys to describe."""

_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "anything",
    Template: "text with references",
    Reference: "reference",
}


class ParameterHelp(NamedTuple):
    """A parameter, or a nested key in a parameter."""

    name: str
    type: str
    required: bool
    default: Any
    """As written in a canvas; None for a required parameter."""
    choices: tuple[str, ...]
    about: str
    inside: tuple[ParameterHelp, ...] = ()
    """The keys of a map, or of maps in a list."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        values = self._asdict()
        return {**values, "choices": list(self.choices), "inside": [one.as_dict() for one in self.inside]}


def parameters_of(model: type[BaseModel], level: int = 1) -> Iterator[ParameterHelp]:
    """Yield the parameters of a params model, in the model's order."""
    defaults = model.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
    properties: dict[str, Any] = model.model_json_schema(by_alias=True).get("properties", {})
    for name, field in model.model_fields.items():
        key = field.alias or name
        shape = next(_models(field.annotation), None)
        inside = tuple(parameters_of(shape, level + 1)) if shape is not None and level < MAX_LEVELS else ()
        about = _about(model, name) or field.description or (_plain(shape.__doc__) if shape is not None else "")
        yield ParameterHelp(
            key,
            _type_name(field.annotation) + _range(properties.get(key, {})),
            field.is_required(),
            defaults.get(key),
            _choices(properties.get(key, {})),
            about,
            inside,
        )


def _type_name(annotation: Any) -> str:
    """Describe the type in words, omitting None, which means "not set" for every parameter."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(args[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type_name(option) for option in args if option is not types.NoneType))
    if origin is Literal:
        return "text"
    if origin is list:
        return f"list of {_plural(_type_name(args[0]))}" if args and args[0] is not Any else "list"
    if origin is dict:
        return f"map of {_plural(_type_name(args[1]))}" if len(args) > 1 and args[1] is not Any else "map"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "map"
    return _WORDS.get(annotation, "anything")


def _plural(word: str) -> str:
    first, space, rest = word.partition(" ")
    return f"{first}s{space}{rest}" if first in ("text", "map", "reference", "number") else word


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type."""
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _options(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    yield from cast("Sequence[Any]", schema.get("anyOf", ()))


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    entries = (entry for option in _options(schema) for entry in option.get("enum", option.get("examples", ())))
    return tuple(dict.fromkeys(str(entry) for entry in entries))


def _range(schema: Mapping[str, Any]) -> str:
    for option in _options(schema):
        low, above, high = option.get("minimum"), option.get("exclusiveMinimum"), option.get("maximum")
        start = f" from {low:g}" if low is not None else f" above {above:g}" if above is not None else ""
        if start or high is not None:
            return start + (f" to {high:g}" if high is not None else "")
    return ""


def _about(model: type[BaseModel], name: str) -> str:
    return next((text for cls in model.__mro__ if (text := _docstrings(cls).get(name))), "")


@lru_cache(maxsize=256)
def _docstrings(cls: type) -> Mapping[str, str]:
    """Return the docstrings of a class's attributes, read from its source, or nothing without the source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    classes = {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
    docstrings: dict[str, str] = {}
    for line, following in itertools.pairwise(classes.get(cls.__name__, ())):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(following, ast.Expr):
            text = following.value.value if isinstance(following.value, ast.Constant) else None
            if isinstance(text, str):
                docstrings[line.target.id] = _plain(text)
    return docstrings


def _plain(text: str | None) -> str:
    return " ".join((text or "").replace("``", "").split())
