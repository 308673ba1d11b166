"""An account of a tool: in the canvas, as in RAGFlow, or in the settings under a name that the canvas contains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Struct
from pydantic import BeforeValidator

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.component.spec import ComponentParams, Requirement

AccountText = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""A text of an account; null, which RAGFlow's editor stores for an empty field, is ``""``."""


class NamedAccount(Struct, frozen=True):
    """The parameter of a tool that names an account in the settings."""

    tool: str
    parameter: str
    what: str
    """What the name stands for, such as ``a mail server``."""
    section: str
    """The section of the settings with these accounts, such as ``email.servers``."""
    resource: str
    """The kind of the tool's `Requirement`."""

    def name(self, params: ComponentParams) -> str:
        """Return the name; ``""`` if the account is in the canvas."""
        return str(getattr(params, self.parameter)).strip()

    def missing(self, params: ComponentParams, names: Iterable[str]) -> list[str]:
        """Return those of the account's parameters that are blank, unless the account is in the settings."""
        if self.name(params):
            return []
        return [name for name in names if not str(getattr(params, name)).strip()]

    def findings(self, missing: Sequence[str]) -> Iterable[Finding]:
        """Yield the warning that parameters are missing, if any are."""
        if missing:
            message = f"{self.tool} has no {', '.join(missing)}, so it fails when it runs."
            hint = f"Set {_pronoun(missing)}, or {self.parameter} to the name of {self.what} in the settings."
            yield Finding("account-missing", "warning", (missing[0],), message, hint)

    def check(self, missing: Sequence[str], node: str) -> None:
        """Raise ComponentError if parameters are missing."""
        if missing:
            raise ComponentError(
                f"{self.tool} has no {', '.join(missing)}. Set {_pronoun(missing)} in the canvas, or {self.parameter} "
                f"to the name of {self.what} in the settings ([{self.section}.NAME]).",
                node=node,
            )

    def requirements(self, params: ComponentParams) -> Iterable[Requirement]:
        """Yield the account in the settings, if the canvas names one."""
        if name := self.name(params):
            yield Requirement(self.resource, name, (self.parameter,))


def _pronoun(names: Sequence[str]) -> str:
    return "them" if len(names) > 1 else "it"
