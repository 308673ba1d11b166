"""``ragflow-lg settings``: all settings with their defaults, as the page about settings has them."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast, get_args, get_origin

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


class Setting(NamedTuple):
    """A setting in the file."""

    section: str
    """Its heading in the file, such as ``[server]``; ``""`` at the top."""
    name: str
    default: str
    """As in the file; ``""`` if there is none."""
    about: str


def settings(
    section: Annotated[
        str, typer.Argument(help="Only this section, such as server or providers.", metavar="[SECTION]")
    ] = "",
    output: Annotated[Literal["text", "markdown"], typer.Option("--output", "-o", help="text or markdown.")] = "text",
) -> None:
    """List all settings with their defaults.

    The file has the settings at the top first, and then a heading for each section. RAGFLOW_LG_SECTION__NAME is the
    environment variable of a setting.

    Examples:
    ragflow-lg settings

    ragflow-lg settings server
    """
    found = [each for each in find_settings() if not section or _first_name(each) == section.strip("[]")]
    if not found:
        raise typer.BadParameter(f"There is no setting or section {section!r}. `ragflow-lg settings` lists all.")
    sys.stdout.write(as_markdown(found) if output == "markdown" else _as_text(found))


def _first_name(setting: Setting) -> str:
    return setting.section.strip("[]").partition(".")[0] or setting.name


def _as_text(found: list[Setting]) -> str:
    lines: list[str] = []
    last = ""
    for each in found:
        if each.section != last:
            lines += ["", each.section]
            last = each.section
        lines.append(f"{each.name} = {each.default}" if each.default else each.name)
        lines += textwrap.wrap(each.about.replace("``", ""), 100, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines).strip("\n") + "\n"


def as_markdown(found: list[Setting]) -> str:
    """Return tables of settings, one a section."""
    lines: list[str] = []
    last = None
    for each in found:
        if each.section != last:
            lines += ["", f"### `{each.section}`" if each.section else "### At the top of the file", ""]
            lines += ["| setting | default | what it sets |", "| --- | --- | --- |"]
            last = each.section
        about, default = each.about.replace("``", "`").replace("|", "\\|"), f"`{each.default}`" if each.default else ""
        lines.append(f"| `{each.name}` | {default} | {about} |")
    return "\n".join(lines).strip("\n") + "\n"


def find_settings() -> list[Setting]:
    """Return all settings, those at the top of the file first."""
    from ragflow_lg.server.settings import Settings

    return sorted(_walk(Settings, ""), key=lambda setting: bool(setting.section))


def _walk(model: type[BaseModel], place: str) -> Iterator[Setting]:
    texts = _read_texts(model)
    sections: list[tuple[type[BaseModel], str]] = []
    for name, field in model.model_fields.items():
        inner = _find_section(field.annotation)
        if inner is None:
            yield Setting(f"[{place}]" if place else "", name, _default(field), texts.get(name, ""))
        else:
            key = ".NAME" if get_origin(field.annotation) is dict else ""
            sections.append((inner, f"{place}.{name}{key}" if place else f"{name}{key}"))
    for inner, path in sections:
        yield from _walk(inner, path)


def _find_section(annotation: Any) -> type[BaseModel] | None:
    from pydantic import BaseModel

    candidates = (annotation, *get_args(annotation))
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, BaseModel)), None)


def _default(field: FieldInfo) -> str:
    from pydantic import SecretStr

    from ragflow_lg.server.settings.secret import Secret

    value = field.get_default(call_default_factory=True) if not field.is_required() else None
    value = value.get_secret_value() if isinstance(value, SecretStr) else value
    if value is None or value in ("", (), {}) or value == Secret():
        return ""
    return json.dumps(value, default=str, ensure_ascii=False)


def _read_texts(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the documentation of each field, which stands below it."""
    texts: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if not part.__module__.startswith("ragflow_lg.") or part.__name__ == "Settings":  # it has no source
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(part)))
        body = cast("ast.ClassDef", tree.body[0]).body
        for entry, following in pairwise(body):
            if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name):
                value = following.value if isinstance(following, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    texts[entry.target.id] = " ".join(value.value.split())
    return texts
