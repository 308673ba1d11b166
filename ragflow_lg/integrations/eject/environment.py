"""The secrets of a canvas, which generated code reads from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.spec import key_in_canvas
from ragflow_lg.dsl.redaction import REDACTED, Redactor, find_field_name, is_secret_name
from ragflow_lg.dsl.variable_references import parse_template
from ragflow_lg.integrations.eject.python_literals import Code, literal, quoted

_KEY_OF_MAP = "key"
"""A field of this name is the key of an entry in a map, such as those that DataOperations updates."""

_ASSIGNED = re.compile(
    r"""(?P<before>\b(?P<name>[A-Za-z_]\w{0,79})["']?\]?[ \t]{0,5}(?::[ \t]{0,5}\w{1,20}[ \t]{0,5})?"""
    r"""[=:][ \t]{0,5}(?P<quote>["']))[^"'\\\n]{1,2000}(?P=quote)"""
)
"""A text that a program assigns to a name or a key: ``API_KEY = "…"``, ``{"token": "…"}``."""


class Environment:
    """The environment variables of a package, and the secrets of the canvas that they replace."""

    def __init__(self, known: Redactor) -> None:
        """``known`` has the secrets of the canvas that components declare or that are in other fields."""
        self.secrets: dict[str, str] = {}
        """The secret by the name of its variable."""
        self._redactor = known

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
        if isinstance(value, list | tuple):
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
