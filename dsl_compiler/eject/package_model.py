"""What every generated file needs to know about the package: names, nodes, secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field
from pydantic import BaseModel, ValidationError

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.plan import Plan, PlanNode, Region
from ragflow_lg.component.spec import key_in_canvas
from ragflow_lg.dsl.redaction import REDACTED, Redactor, find_field_name, is_secret_name
from ragflow_lg.dsl.variable_references import Reference, ReferenceScope, Template, parse_template
from ragflow_lg.dsl_compiler.eject.flow_shape import NotEjectable
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal, quoted
from ragflow_lg.dsl_compiler.passes.bind_components import EDITOR_KEYS

_KEY_OF_MAP = "key"
"""A field of this name is the key of an entry in a map, such as those that DataOperations updates."""

_ASSIGNED = re.compile(
    r"""(?P<before>\b(?P<name>[A-Za-z_]\w{0,79})["']?\]?[ \t]{0,5}(?::[ \t]{0,5}\w{1,20}[ \t]{0,5})?"""
    r"""[=:][ \t]{0,5}(?P<quote>["']))[^"'\\\n]{1,2000}(?P=quote)"""
)
"""A text that a program assigns to a name or a key: ``API_KEY = "…"``, ``{"token": "…"}``."""


class Environment:
    """The environment variables of a package, and the secrets of the canvas that they replace."""

    def __init__(self, known: Redactor | None = None) -> None:
        """``known`` has the secrets of the canvas that components declare or that are in other fields."""
        self.secrets: dict[str, str] = {}
        """The secret by the name of its variable."""
        self._redactor = known or Redactor()

    def without_secrets(self, value: JsonValue, prefix: str, name: str = "") -> Any:
        """Return a value in which `Code` that reads the environment replaces each secret.

        ``prefix`` begins the names of the variables, ``name`` is the field that contains the value.
        """
        if isinstance(value, Mapping):
            entries = cast("Mapping[str, Any]", value)
            return {
                key: self.without_secrets(entry, prefix, find_field_name(entries, str(key)))
                for key, entry in entries.items()
            }
        if isinstance(value, list):
            return [self.without_secrets(entry, prefix, name) for entry in cast("Sequence[Any]", value)]
        if not isinstance(value, str) or not key_in_canvas(value) or parse_template(value).sole_reference is not None:
            return value
        redacted = self._redactor.value(value, "" if name == _KEY_OF_MAP else name)
        if name == "script":
            redacted = _ASSIGNED.sub(_hide_assigned, str(redacted))
        return value if redacted == value else self._read(value, str(redacted), f"{prefix}_{name}")

    def _read(self, text: str, redacted: str, name: str) -> Code:
        """Return an expression for a text whose secrets are ``***`` in ``redacted``."""
        kept = redacted.split(REDACTED)
        match = re.fullmatch("(.+?)".join(map(re.escape, kept)), text, re.DOTALL)
        if match is None or REDACTED in text:
            return self._variable(text, name)
        parts: list[str] = []
        for piece, secret in zip(kept, (*match.groups(), ""), strict=True):
            parts += [literal(piece)] if piece else []
            parts += [self._variable(secret, name)] if secret else []
        return Code(" + ".join(parts))

    def _variable(self, secret: str, name: str) -> Code:
        base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper()
        variable, number = base, 1
        while self.secrets.get(variable, secret) != secret:
            number += 1
            variable = f"{base}_{number}"
        self.secrets[variable] = secret
        return Code(f'os.environ.get({quoted(variable)}, "")')


def _hide_assigned(match: re.Match[str]) -> str:
    return f"{match['before']}{REDACTED}{match['quote']}" if is_secret_name(match["name"]) else match[0]


_POLICY = ("exception_method", "exception_default_value", "exception_goto")


class PackageModel(Struct, frozen=True):
    """A plan with the Python names of its nodes."""

    plan: Plan
    package: str
    names: Mapping[NodeId, str]
    environment: Environment = field(default_factory=Environment)

    def name(self, node: NodeId | str) -> str:
        """Return the name of a node's function."""
        return self.names[NodeId(node)]

    def quoted_name(self, node: NodeId | str) -> str:
        """Return the name of a node's function as a literal."""
        return quoted(self.name(node))

    def regions_around(self, node: PlanNode) -> list[Region]:
        """Return the Loops and Iterations around a node, outermost first."""
        around: list[Region] = []
        parent = node.parent
        while parent is not None:
            around.insert(0, self.plan.regions[parent])
            parent = self.plan.nodes[parent].parent
        return around

    def round_node(self, region: Region) -> str:
        """Return the name of the function that begins the rounds of a region."""
        return self.name(region.item) if region.item else f"{self.name(region.owner)}_round_start"

    def item_node(self, node: PlanNode) -> str:
        """Return the name of the node with the current item, or ``""`` outside an Iteration."""
        around = [region for region in self.regions_around(node) if self.plan.nodes[region.owner].spec.yields_items]
        return self.round_node(around[-1]) if around else ""

    def is_known(self, reference: Reference, reader: PlanNode) -> bool:
        """Return whether `value` can write a reference."""
        if reference.kind == "output":
            return reference.node in self.plan.nodes
        return reference.kind == "global" or bool(self.item_node(reader))

    def value(self, reference: Reference, reader: PlanNode, function: str = "output") -> Code:
        """Return an expression for the value of a reference, as a node reads it."""
        if reference.kind == "global":
            return Code(f"variable(state, {quoted(reference.key)})")
        if reference.kind == "alias":
            return Code(f"output(state, {quoted(self.item_node(reader))}, {quoted(reference.key)})")
        arguments = ["state", self.quoted_name(reference.node), *map(quoted, (reference.key, *reference.path))]
        if reference.key in self.plan.nodes[NodeId(reference.node)].declared:
            arguments.append("default=None")
        return Code(f"{function}({', '.join(arguments)})")

    def params(self, node: PlanNode) -> Any:
        """Return the parameters that a component needs, without the editor's keys, defaults and secrets.

        Raises:
            NotEjectable: if they cannot be read again.
        """
        written = plain_params(node.params, node.params.model_fields_set)
        known = {*type(node.params).model_fields, *(f.alias for f in type(node.params).model_fields.values())}
        unread = {*EDITOR_KEYS, *node.spec.unused} - known
        kept = {key: value for key, value in written.items() if key not in unread}
        whole = self._read(node, kept)
        if whole is None or self._read(node, written) != plain_params(node.params):
            raise NotEjectable(node, "its parameters cannot be written as JSON")
        for key in list(kept):
            rest = {other: value for other, value in kept.items() if other != key}
            if self._read(node, rest) == whole:
                kept = rest
        if node.on_error.jumps:
            kept = {key: value for key, value in kept.items() if key not in _POLICY}
        return self.environment.without_secrets(kept, self.name(node.id))

    def _read(self, node: PlanNode, params: Mapping[str, JsonValue]) -> Any:
        scope = ReferenceScope(frozenset(self.plan.nodes), bool(self.item_node(node)))
        try:
            return plain_params(node.spec.params.model_validate(params, context={"scope": scope}))
        except ValidationError:
            return None

    def variables(self) -> str:
        """Return the variables of a new conversation as a literal."""
        return literal(self.environment.without_secrets(dict(self.plan.globals), self.package))


def plain_params(params: BaseModel, only: Collection[str] | None = None) -> dict[str, Any]:
    """Return parameters as a canvas contains them; of the fields, ``only`` some."""
    fields = type(params).model_fields.items()
    known = {
        field.alias or name: _plain(getattr(params, name)) for name, field in fields if only is None or name in only
    }
    return {**known, **{key: _plain(value) for key, value in (params.__pydantic_extra__ or {}).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Reference | Template):
        return str(value)
    if isinstance(value, BaseModel):
        return plain_params(value, value.model_fields_set)
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in cast("Sequence[Any]", value)]
    return value
