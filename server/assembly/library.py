"""Canvases compiled and checked according to the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ragflow_lg.adapters.chat.chat_settings import is_demo
from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.base.sized_cache import SizedCache
from ragflow_lg.catalog import load_catalog, spec_of_any_tool
from ragflow_lg.dsl.compatibility import Compatibility, read_choices
from ragflow_lg.dsl_compiler import (
    NO_LIMITS,
    CanvasLimits,
    CheckedCanvas,
    add_positions,
    check_canvas,
    compile_canvas,
    inspect_canvas,
)
from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
from ragflow_lg.server.assembly.canvas_needs import UNSET, check_needs
from ragflow_lg.server.assembly.model_checks import check_model_requests

if TYPE_CHECKING:
    from ragflow_lg.base.diagnostics import Diagnostic, Severity
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.component.registry import Registry
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.server.settings import Settings

Compat: TypeAlias = Literal["ragflow"] | Mapping[str, bool | str]
"""RAGFlow's behaviours: all of them, or a choice by name as in `ragflow_lg.dsl.compatibility`."""

MAX_CACHED_BYTES = 16 * 1024 * 1024
"""How large the compiled canvases in the cache are together."""

CANVAS_BYTES = 128 * 1024
"""What a compiled canvas takes beside its characters."""


@lru_cache(maxsize=1)
def catalog() -> Registry:
    """Return the components in this installation. They are loaded only once."""
    return load_catalog()


def load_canvas(
    source: Path | str | bytes | Mapping[str, Any],
    settings: Settings | None = None,
    *,
    model: str = "",
    asks_servers: bool = True,
    compat: Compat | None = None,
    tools: Sequence[Any] = (),
) -> CompiledCanvas:
    """Compile a canvas, given as a file path, as text or bytes, or as a JSON object.

    Text that begins with ``{`` is a document; any other text is a path. Compiled canvases are cached by content, except
    those that run others. Without ``settings``, the default settings are loaded as soon as the canvas needs a rule.
    ``asks_servers`` is false if the canvas will not call the MCP servers in the settings because it is replayed, only
    inspected, or run with other services. In that case, its servers need not be in the settings, and also if ``model``,
    which replaces every model, is that of a demo. ``compat`` replaces the section ``[compat]`` of the settings.
    ``tools`` are components of this canvas only; it is not cached then.

    Raises:
        CompileError: If the canvas has errors.
        SettingsError: If the file or the settings cannot be read, or a tool is invalid.
    """
    read = default_settings if settings is None else lambda: settings
    content = read_content(source)
    path = Path(source) if isinstance(source, Path | str) and not is_document(source) else None
    limits = NO_LIMITS if settings is None or path else settings.limits.canvas
    asks_servers = asks_servers and not is_demo(model)
    files = CanvasFiles(read, path, asks_servers=asks_servers, compatibility=_compatibility(compat), limits=limits)
    try:
        if isinstance(content, Mapping) or tools:
            return compile_canvas(content, _catalog_with(tools), files)
        return _compile(content, files)
    except CompileError as error:
        raise (error if path is None else CompileError(error.diagnostics, file=str(path))) from None


def _catalog_with(tools: Sequence[Any]) -> Registry:
    """Return the catalog with more tools, by their own names."""
    if not tools:
        return catalog()
    registry = load_catalog()
    for tool in tools:
        name = name_of_tool(tool)
        try:
            registry.add(spec_of_any_tool(name, tool))
        except ValueError:
            raise SettingsError(f"The tool {name!r} has the name of a component or of another tool.") from None
    return registry


def name_of_tool(tool: Any) -> str:
    """Return the name by which a canvas uses a function or a tool of LangChain."""
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__))


def _compatibility(compat: Compat | None) -> Compatibility | None:
    if compat is None:
        return None
    choices, problems = read_choices(compat)
    if problems:
        texts = [f"{problem.message} {problem.hint}" for problem in problems]
        raise SettingsError(f"compat is wrong: {' '.join(texts)}")
    return Compatibility().override(choices)


def read_content(source: Path | str | bytes | Mapping[str, Any]) -> bytes | Mapping[str, Any]:
    """Return a document, or the content of its file; see `load_canvas`."""
    if isinstance(source, bytes | Mapping):
        return source
    if isinstance(source, str) and is_document(source):
        return source.encode("utf-8", "replace")
    return read_canvas(Path(source))


def is_document(source: Path | str) -> bool:
    """Return whether a text is a document, and not a path."""
    return isinstance(source, str) and source.lstrip("\ufeff \r\n\t").startswith("{")


def check_file(
    path: Path,
    settings: Callable[[], Settings] | None = None,
    *,
    is_uploaded: bool = False,
    missing_severity: Severity = "warning",
) -> tuple[Plan | None, tuple[Diagnostic, ...], str]:
    """Check a file and what it needs. Return the plan if it can run, all diagnostics, and the text they refer to.

    ``settings`` is loaded as soon as the canvas needs a rule. With ``is_uploaded``, the canvas is checked as if it were
    uploaded to a server: with the limits on its size, and without the other files in its folder. What it needs and the
    settings lack is reported with ``missing_severity``; the plan is returned nevertheless.
    """
    content, load = read_canvas(path), cache(settings or default_settings)
    files = CanvasFiles(load, limits=load().limits.canvas) if is_uploaded else CanvasFiles(load, path)
    text = content.decode("utf-8", "replace")
    checked = _check(content, text, load, files, missing_severity)
    return checked.plan, checked.diagnostics, text


def check_text(text: str, path: Path | None, settings: Callable[[], Settings], limits: CanvasLimits) -> CheckedCanvas:
    """Check a text as `check_file` checks the file at ``path``, whatever that contains."""
    load = cache(settings)
    return _check(text, text, load, CanvasFiles(load, path, limits=limits), "warning")


def _check(
    content: str | bytes, text: str, load: Callable[[], Settings], files: CanvasFiles, severity: Severity
) -> CheckedCanvas:
    checked = inspect_canvas(content, catalog(), files)
    if checked.plan is None:
        return checked
    known = tuple(one._replace(severity=severity) if one.code in UNSET else one for one in checked.diagnostics)
    found = [*check_needs(checked.plan, load, severity), *check_model_requests(checked.plan, load)]
    return checked._replace(diagnostics=add_positions((*known, *found), text) if found else known)


def sketch_file(path: Path) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """Return the plan for a file for display purposes, if there is one, and all diagnostics."""
    return check_canvas(read_canvas(path), catalog(), CanvasFiles(default_settings, path, asks_servers=False))


_cache: SizedCache[bytes, tuple[CompiledCanvas, Mapping[str, object]]] = SizedCache(MAX_CACHED_BYTES)
"""Compiled canvases by their content, with the rules under which they were compiled."""


def cached_canvas(content: bytes, files: CanvasFiles) -> CompiledCanvas | None:
    """Return a compiled canvas from the cache if `load_canvas` would now return the same one. Needs no thread."""
    entry = _cache.get(content)
    return entry[0] if entry is not None and files.matches(entry[1]) else None


def _compile(content: bytes, files: CanvasFiles) -> CompiledCanvas:
    if (canvas := cached_canvas(content, files)) is not None:
        return canvas
    canvas = compile_canvas(content, catalog(), files)
    if not files.has_loaded:  # the canvases that it runs may change at any time
        _cache.put(content, (canvas, files.rules), CANVAS_BYTES + len(content))
    return canvas


def default_settings() -> Settings:
    """Return the settings of the file that is used without another one."""
    from ragflow_lg.server.settings import load_settings

    return load_settings(None)
