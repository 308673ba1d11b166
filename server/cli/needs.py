"""``ragflow-lg needs``: what a canvas needs from outside, what is missing, and settings for it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
import typer

from ragflow_lg.component.integration import need_kinds
from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import format_command, print_note
from ragflow_lg.server.settings.trusted_folders import is_trusted

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.canvas_needs import Need


SETTINGS_FILE, VARIABLES_FILE = "ragflow-lg.toml", ".env.example"


def needs(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    output: Annotated[
        Literal["text", "json", "toml"],
        typer.Option("--output", "-o", help="text, json, or toml: settings for what is missing."),
    ] = "text",
    init: Annotated[
        bool, typer.Option("--init", help=f"Write {SETTINGS_FILE} and {VARIABLES_FILE} for what is missing.")
    ] = False,
    settings: SettingsFile = None,
) -> None:
    """List what a canvas needs from the settings, and what is missing.

    Models, datasets, keys, databases, mail and MCP servers, other canvases, packages, and the addresses that it calls,
    with the nodes that need them. Exit code 0: nothing is missing. 1: something is.

    Examples:
    ragflow-lg needs my_canvas.json

    ragflow-lg needs my_canvas.json --init
    """
    from ragflow_lg.base.errors import CompileError
    from ragflow_lg.server.assembly.canvas_needs import list_needs
    from ragflow_lg.server.assembly.library import check_file
    from ragflow_lg.server.settings import load_settings

    config = load_settings(settings)
    plan, diagnostics, _ = check_file(file, lambda: config)
    if plan is None:
        raise CompileError(diagnostics, file=str(file))
    found = list_needs(plan, config)
    missing = [need for need in found if need.state == "missing"]
    if init:
        _write_new(Path(SETTINGS_FILE), write_settings(missing))
        _write_new(Path(VARIABLES_FILE), "".join(f"{name}=\n" for name in dict.fromkeys(_variables(missing))))
        if not is_trusted("settings", Path()):
            print_note(f"{SETTINGS_FILE} is used once this folder is trusted: {format_command('trust')}")
        return
    if output == "json":
        entries = [need._asdict() for need in found]
        sys.stdout.write(orjson.dumps(entries, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
    elif output == "toml":
        sys.stdout.write(write_settings(missing))
    else:
        sys.stdout.write(_as_text(found, config.chat_settings().default_model))
    raise typer.Exit(1 if missing else 0)


def _as_text(found: Sequence[Need], default_model: str) -> str:
    from ragflow_lg.server.assembly.canvas_needs import need_labels

    lines: list[str] = []
    labels = need_labels()
    for need in found:
        name = need.name or "the default model" + (f" ({default_model})" if need.kind == "model" else "")
        lines.append(f"{need.state:<11}  {labels.get(need.kind, need.kind)} {name}  ({', '.join(need.users)})")
        if need.problem:
            lines.append(f"{'':<11}  {need.problem}")
    missing = sum(need.state == "missing" for need in found)
    lines.append(f"{missing} of {len(found)} needs are missing." if found else "The canvas needs nothing from outside.")
    return "\n".join(lines) + "\n"


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise typer.BadParameter(f"{path} exists already. Use --output toml, and add what is missing to it.") from None
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}.") from None
    sys.stderr.write(f"Wrote {path}.\n")


def write_settings(missing: Sequence[Need]) -> str:
    """Return the sections of the settings that supply what is missing, with comments."""
    sections = [section for need in missing if (section := _section(need))]
    if not sections:
        return "# Nothing is missing in the settings.\n"
    return "\n".join(dict.fromkeys(sections))


def _variables(missing: Sequence[Need]) -> Iterator[str]:
    """Yield the environment variables with keys and passwords."""
    for need in missing:
        if named := re.search(r"environment variable '?([A-Z][A-Z0-9_]*)", need.problem):
            yield named[1]
        else:
            yield from re.findall(r'\{ env = "(\w+)" \}', _section(need))
            if need.kind == "model":
                yield from _known_variables(need.name)


def _section(need: Need) -> str:
    """Return the section for a need, or ``""`` if settings do not supply it."""
    name, users = need.name, ", ".join(need.users)
    if need.kind == "model":
        if install := re.search(r"pip install '[^']+'", need.problem):
            return f"# {users}: {name} needs packages: {install[0]}\n"
        return _model_section(name, users, has_address="base_url" not in need.problem)
    if need.kind == "dataset":
        return f"# {users}: ragflow-lg kb create NAME --id {name}\n"
    if (kind := need_kinds().get(need.kind)) is not None:
        name = name or kind.usual_name
    key = json.dumps(name, ensure_ascii=False)
    api_key = f'api_key = {{ env = "{_variable(name)}_API_KEY" }}\n'
    texts = {
        "key": f"[tools.{key}]\n{api_key}",
        **{kind: each.section.format(key=key, variable=_variable(name)) for kind, each in need_kinds().items()},
    }
    return f"# {users}\n{text}" if (text := texts.get(need.kind)) else ""


def _model_section(name: str, users: str, *, has_address: bool) -> str:
    provider = name.rpartition("@")[2] if "@" in name else ""
    if not name:
        return f'# {users}\ndefault_model = "gpt-4.1-mini@OpenAI"\n'
    if variables := _known_variables(name):
        noun = "variable" if len(variables) == 1 else "variables"
        return f"# {users}: {name} only needs the environment {noun} {' and '.join(variables)}.\n"
    model = name.partition("@")[0]
    section = json.dumps(provider or "NAME", ensure_ascii=False)
    lines = [f"# {users}: {name}", f"[providers.{section}]"]
    if not has_address:
        lines.append('base_url = "https://…/v1"')
    lines.append(f'api_key = {{ env = "{_variable(provider or "MODEL")}_API_KEY" }}')
    if not provider:
        lines.append(f"models = [{json.dumps(model, ensure_ascii=False)}]")
    return "\n".join(lines) + "\n"


def _known_variables(name: str) -> list[str]:
    """Return the environment variables that are enough for a model, or none."""
    from ragflow_lg.adapters.known_providers import provider_of_model

    found = provider_of_model(name)
    if found is None or not found[1].family or not found[1].key:
        return []
    provider = found[1]
    if provider.base_url:
        return [provider.key]
    return [provider.key, provider.required_variable] if provider.family in ("azure", "bedrock") else []


def _variable(name: str) -> str:
    """Return the beginning of the name of an environment variable."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or "SERVICE"
