"""Writes a session's record into one page with everything that it needs, which opens from disk without a network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import orjson

from ragflow_lg.server import page

_IMPORT = re.compile(r'^import\s+(?:(\w+)\s*,?\s*)?(?:\{([^}]*)\}\s*)?from\s*"([^"\n]+)";?[ \t]*$', re.MULTILINE)
_DECLARATION = re.compile(r"^export\s+((?:async\s+)?(?:function\*?|class|const|let)\s+(\w+))", re.MULTILINE)
_LIST = re.compile(r"\bexport\s*\{([^}]*)\}\s*;?\s*$")
_LEFT = re.compile(r"^\s*(?:import\b(?!\()|export\b).*$", re.MULTILINE)


def join_scripts(entry: Path) -> str:
    """Return one script with a module and all modules that it imports.

    Raises:
        ValueError: If modules import each other in a circle, or a form of `import` or `export` is unknown.
    """
    folder = entry.parent.parent
    written: dict[Path, str] = {}
    _add(entry.resolve(), folder.resolve(), written, ())
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
    if left := _LEFT.search(text):
        raise ValueError(f"{file.name}: {left[0].strip()[:80]!r} cannot be joined.")
    return f"modules[{_name(file, folder)}] = (() => {{\n{text}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _pairs(names: str, between: str) -> str:
    """Return ``a as b, c`` as ``a: b, c: c``."""
    pairs = ((first, last or first) for first, _, last in (name.strip().partition(" as ") for name in names.split(",")))
    return ", ".join(f"{first.strip()}{between}{last.strip()}" for first, last in pairs if first.strip())


def _name(file: Path, folder: Path) -> str:
    return f'"{file.relative_to(folder).as_posix()}"'


_FOLDER = Path(page.__file__).parent
_END_OF_SCRIPT = re.compile("<(?=/script|!--|script)", re.IGNORECASE)


def build_run_file(record: Mapping[str, Any]) -> bytes:
    """Return the page. Its policy allows no script but its own, and no request.

    Args:
        record: What `SessionReader` has read, as JSON.
    """
    script, style = _own_parts()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "media-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    title = escape(str(record["session"]["title"]))
    # The browser ends an inline script, and so the record, at the first `</script`.
    data = orjson.dumps(record).decode().replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n'
        '<div id="app"></div>\n<noscript>This page needs JavaScript.</noscript>\n'
        f'<script type="application/json" id="record">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    ).encode()


@lru_cache(maxsize=1)
def _own_parts() -> tuple[str, str]:
    """Return the page's script and its style, the same for every file."""
    script = join_scripts(_FOLDER / "js" / "run_file.js")
    style = "".join((_FOLDER / name).read_text("utf-8") for name in ("page.css", "graph.css"))
    return _END_OF_SCRIPT.sub(r"\\x3c", script), style


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
