"""Joining the modules of a page to one script: a browser asks for one file instead of for each of them."""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r'^import\s+(?:(\w+)\s*,?\s*)?(?:\{([^}]*)\}\s*)?from\s*"([^"\n]+)";?[ \t]*$', re.MULTILINE)
_DECLARATION = re.compile(r"^export\s+((?:async\s+)?(?:function\*?|class|const|let)\s+(\w+))", re.MULTILINE)
_LIST = re.compile(r"\bexport\s*\{([^}]*)\}\s*;?\s*$")
_LEFT = re.compile(r"^\s*(?:import\b(?!\()|export\b).*$", re.MULTILINE)
_LAZY = re.compile(r'\bimport\("([^"\n]+)"\)')


def join_scripts(entry: Path, lazy: tuple[str, ...] = ()) -> str:
    """Return one script with a module and all modules that it imports.

    Of the modules that are loaded later it has those in ``lazy``; the others are files beside the script.

    Raises:
        ValueError: If modules import each other in a circle, or a form of `import` or `export` is unknown.
    """
    folder = entry.parent.parent
    written: dict[Path, str] = {}
    for name in (*lazy, entry.relative_to(folder).as_posix()):
        _add((folder / name).resolve(), folder.resolve(), written, ())
    return "\n".join(['"use strict";', "const modules = {};", *written.values()]) + "\n"


def _add(file: Path, folder: Path, written: dict[Path, str], above: tuple[Path, ...]) -> None:
    if file in above:
        raise ValueError(f"{file.name} imports itself, through {', '.join(path.name for path in above)}.")
    if file in written:
        return
    text = file.read_text("utf-8")
    for match in _IMPORT.finditer(text):
        _add((file.parent / match[3]).resolve(), folder, written, (*above, file))
    written[file] = _wrap(text, file, folder)


def _wrap(text: str, file: Path, folder: Path) -> str:
    """Return a module as an assignment of its exports."""

    def bind(match: re.Match[str]) -> str:
        source = f"modules[{_name((file.parent / match[3]).resolve(), folder)}]"
        whole = f"const {match[1]} = {source}.default; " if match[1] else ""
        return whole + (f"const {{ {_pairs(match[2], ': ')} }} = {source};" if match[2] else "")

    exports = [f"{match[2]}: {match[2]}" for match in _DECLARATION.finditer(text)]
    if found := _LIST.search(text):
        exports += [": ".join(reversed(pair.split(": "))) for pair in _pairs(found[1], ": ").split(", ") if pair]
        text = text[: found.start()]
    text = _DECLARATION.sub(r"\1", _IMPORT.sub(bind, text))
    text = _LAZY.sub(lambda match: _load_later(_name((file.parent / match[1]).resolve(), folder)), text)
    if left := _LEFT.search(text):
        raise ValueError(f"{file.name}: {left[0].strip()[:80]!r} cannot be joined.")
    return f"modules[{_name(file, folder)}] = (() => {{\n{text}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _load_later(name: str) -> str:
    return f'(modules[{name}] ? Promise.resolve(modules[{name}]) : import("./" + {name}))'


def _pairs(names: str, between: str) -> str:
    """Return ``a as b, c`` as ``a: b, c: c``."""
    pairs = ((first, last or first) for first, _, last in (name.strip().partition(" as ") for name in names.split(",")))
    return ", ".join(f"{first.strip()}{between}{last.strip()}" for first, last in pairs if first.strip())


def _name(file: Path, folder: Path) -> str:
    return f'"{file.relative_to(folder).as_posix()}"'
