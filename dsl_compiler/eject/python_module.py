"""The text of one generated module: its docstring, imports and code."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ragflow_lg.dsl_compiler.eject.python_literals import comment, literal


class PythonModule:
    """Gathers the imports of a module while its code is written."""

    def __init__(self, package: str, summary: str) -> None:
        """``summary`` becomes the docstring; it may contain texts of the canvas."""
        self.package = package
        self._summary = comment(summary)
        self._names: dict[str, set[str]] = {}
        self.blocks: list[str] = []

    def use(self, module: str, *names: str) -> None:
        """Import names from a module, or the module itself without ``names``."""
        self._names.setdefault(module, set()).update(names)

    def use_public(self, *names: str) -> None:
        """Import names from `ragflow_lg.ejected`."""
        self.use("ragflow_lg.ejected", *names)

    def add(self, *lines: str) -> None:
        """Add a block of code, which two blank lines separate from the others."""
        self.blocks.append("\n".join(lines))

    def text(self) -> str:
        """Return the module."""
        head = [f'"""{self._summary}"""', "", *self._imports()]
        text = "\n".join(head).rstrip() + "\n"
        for block in self.blocks:
            is_value = not block.startswith(("def ", "async def ", "class ")) and self._names
            text += f"\n{block}\n" if is_value and block is self.blocks[0] else f"\n\n{block}\n"
        return text

    def _imports(self) -> Iterable[str]:
        for group in range(3):
            modules = [m for m in self._names if self._group(m) == group]
            modules.sort(key=lambda module: (bool(self._names[module]), module))
            yield from (self._line(module) for module in modules)
            if modules:
                yield ""

    def _group(self, module: str) -> int:
        top = module.split(".")[0]
        return 0 if top in sys.stdlib_module_names else 2 if top == self.package else 1

    def _line(self, module: str) -> str:
        if not self._names[module]:
            return f"import {module}"
        names = sorted(self._names[module], key=lambda name: (not name.isupper(), not name[0].isupper(), name))
        line = f"from {module} import {', '.join(names)}"
        return line if len(line) <= 88 else "\n".join([f"from {module} import (", *(f"    {n}," for n in names), ")"])


def command_type(module: PythonModule, targets: Iterable[str]) -> str:
    """Return the type of a function that names the next nodes, and import what it needs."""
    names = literal(list(dict.fromkeys(targets)))[1:-1]
    if names:
        module.use("typing", "Literal")
    return f"Command[Literal[{names}]]" if names else "Command[str]"
