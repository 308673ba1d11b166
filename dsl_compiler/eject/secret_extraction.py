"""Takes the secrets out of parameters: generated code reads them from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.spec import key_in_canvas
from ragflow_lg.dsl.redaction import REDACTED, Redactor
from ragflow_lg.dsl.variable_references import parse_template
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal, quoted

_KEY_OF_MAP = "key"
"""A field of this name is the key of an entry in a map, such as those that DataOperations updates."""


class Environment:
    """The environment variables of a package, and the secrets of the canvas that they replace."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        """The secret by the name of its variable."""
        self._redactor = Redactor()

    def without_secrets(self, value: JsonValue, prefix: str, name: str = "") -> Any:
        """Return a value in which `Code` that reads the environment replaces each secret.

        ``prefix`` begins the names of the variables, ``name`` is the field that contains the value.
        """
        if isinstance(value, Mapping):
            entries = cast("Mapping[str, Any]", value).items()
            return {key: self.without_secrets(entry, prefix, str(key)) for key, entry in entries}
        if isinstance(value, list):
            return [self.without_secrets(entry, prefix, name) for entry in cast("Sequence[Any]", value)]
        if not isinstance(value, str) or not key_in_canvas(value) or parse_template(value).sole_reference is not None:
            return value
        redacted = self._redactor.value(value, "" if name == _KEY_OF_MAP else name)
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
