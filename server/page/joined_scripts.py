"""Joining the modules of a page to one script: a browser asks for one file instead of for each of them."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath

_IMPORT = re.compile(r'^import\s+(?:(\w+)\s*,?\s*)?(?:\{([^}]*)\}\s*)?from\s*"([^"\n]+)";?[ \t]*$', re.MULTILINE)
_DECLARATION = re.compile(r"^export\s+((?:async\s+)?(?:function\*?|class|const)\s+(\w+))", re.MULTILINE)
_LIST = re.compile(r"\bexport\s*\{([^}]*)\}\s*;?\s*$")
_LEFT = re.compile(r"^\s*(?:import\b(?!\()|export\b).*$", re.MULTILINE)
_LAZY = re.compile(r'\bimport\("([^"\n]+)"\)')


def join_scripts(entry: Path, lazy: tuple[str, ...] = ()) -> str:
    """Return one script with a module and all modules that it imports.

    Of the modules that are loaded later it has those in ``lazy``; the others are files beside the script.

    Raises:
        ValueError: If modules import each other in a circle, or a form of `import` or `export` is unknown.
    """
    written: dict[str, str] = {}
    for name in (*lazy, f"{entry.parent.name}/{entry.name}"):
        _add(name, entry.parent.parent, written, ())
    return "\n".join(['"use strict";', "const modules = {};", *written.values()]) + "\n"


def _add(name: str, folder: Path, written: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"{name} imports itself, through {', '.join(above)}.")
    if name in written:
        return
    text = (folder / name).read_text("utf-8")
    for match in _IMPORT.finditer(text):
        _add(_name(name, match[3]), folder, written, (*above, name))
    written[name] = _wrap(text, name)


def _name(name: str, imported: str) -> str:
    """Return the name of what a module imports."""
    return normpath(join(dirname(name), imported))


def _wrap(text: str, name: str) -> str:
    """Return a module as an assignment of its exports."""

    def bind(match: re.Match[str]) -> str:
        source = f'modules["{_name(name, match[3])}"]'
        whole = f"const {match[1]} = {source}.default; " if match[1] else ""
        return whole + (f"const {{ {_pairs(match[2], ': ')} }} = {source};" if match[2] else "")

    def load_later(match: re.Match[str]) -> str:
        module = f'"{_name(name, match[1])}"'
        return f'(modules[{module}] ? Promise.resolve(modules[{module}]) : import("./" + {module}))'

    exports = [f"{match[2]}: {match[2]}" for match in _DECLARATION.finditer(text)]
    if found := _LIST.search(text):
        exports += [": ".join(reversed(pair.split(": "))) for pair in _pairs(found[1], ": ").split(", ") if pair]
        text = text[: found.start()]
    text = _LAZY.sub(load_later, _DECLARATION.sub(r"\1", _IMPORT.sub(bind, text)))
    if left := _LEFT.search(text):
        raise ValueError(f"{name}: {left[0].strip()[:80]!r} cannot be joined.")
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exports)} }};\n}})();'


def _pairs(names: str, between: str) -> str:
    """Return ``a as b, c`` as ``a: b, c: c``."""
    pairs = ((first, last or first) for first, _, last in (name.strip().partition(" as ") for name in names.split(",")))
    return ", ".join(f"{first.strip()}{between}{last.strip()}" for first, last in pairs if first.strip())
