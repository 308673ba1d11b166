"""The file of a pulled agent: its name, and its canvas in the canonical form, without keys."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Container, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ragflow_lg.base.errors import CompileError, ServiceError
from ragflow_lg.base.lenient_values import as_map, as_text
from ragflow_lg.dsl.redaction import VALUE_FIELDS, Redactor, find_field_name, hides_all, is_secret_name
from ragflow_lg.dsl.variable_references import parse_template
from ragflow_lg.dsl_compiler.canvas_format import format_canvas

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent

MAX_DEPTH = 60
MAX_DSL_CHARS = 8_000_000
"""Maximum size of a canvas as JSON text."""

ABOUT = ("id", "title", "description", "avatar", "canvas_type", "canvas_category")
"""The fields beside the canvas, as in RAGFlow's templates."""

_NOT_SECRET = ("key", "auth", "pass", "sig", "token")
"""Names that are more often those of fields and columns than of secrets, unless they name a value beside or in them."""

_DESCRIBES = frozenset(["description", "label", "name", "optional", "required", "title", "type"])
"""What describes a field of a form, also one whose name is that of a secret."""

_SCHEMES = ("", "apikey", "basic", "bearer", "token")
"""What may be beside the references in a value without a secret."""


class AgentFile(NamedTuple):
    """An agent as a file."""

    text: str
    hash: str
    blanked: tuple[str, ...]
    """Where a key was left out, as ``component: parameter``."""


def build_agent_file(agent: RemoteAgent, *, dsl: Mapping[str, Any] | None = None) -> AgentFile:
    """Return the file of an agent, or of another version of its canvas.

    Raises:
        ServiceError: if the canvas is too large or nested too deeply.
    """
    canvas = agent.dsl if dsl is None else dsl
    blanked: dict[str, None] = {}
    fields = {name: value for name in ABOUT if (value := getattr(agent, name))}
    try:
        if len(json.dumps(canvas, ensure_ascii=False)) > MAX_DSL_CHARS:
            raise ServiceError(f"The canvas has more than {MAX_DSL_CHARS:,} characters.")
        document = {**fields, "dsl": without_secrets(canvas, blanked)}
        text = format_canvas(json.dumps(document).encode())
    except (RecursionError, CompileError) as error:
        raise ServiceError(f"The canvas cannot be written: {error or 'it is nested too deeply'}") from None
    return AgentFile(text, hash_text(text), tuple(blanked))


def hash_text(text: str) -> str:
    """Return the hash of a canonical text."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def hash_without_own(document: Mapping[str, Any]) -> str:
    """Return the hash of an agent's file without what is set here only: keys, and ``compat`` beside the canvas."""
    theirs = {name: value for name, value in document.items() if name != "compat"}
    return hash_text(
        format_canvas(json.dumps({**theirs, "dsl": without_secrets(as_map(theirs.get("dsl")), {})}).encode())
    )


def without_secrets(canvas: Mapping[str, Any], blanked: dict[str, None]) -> dict[str, Any]:
    """Return a canvas with keys and passwords left out, and add the places to ``blanked``."""

    def walk(value: Any, name: str, place: str, *, is_inside: bool, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ServiceError("The canvas is nested too deeply.")
        if isinstance(value, Mapping):
            where = place or (as_text(as_map(value).get("id")) if name == "nodes" else "")  # a node of the graph
            return {
                key: walk(entry, field, _place(where, name, key), is_inside=inside, depth=depth + 1)
                for key, entry, field, inside in _fields(cast("object", value), name, is_inside=is_inside)
            }
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [walk(entry, name, place, is_inside=is_inside, depth=depth + 1) for entry in items]
        clean = _clean(value, name, is_inside=is_inside)
        if clean != value:
            blanked[f"{place}: {name}"] = None
        return clean

    return walk(canvas, "", "", is_inside=False, depth=0)


def _place(place: str, name: str, key: str) -> str:
    """Return the id of the component that contains a value."""
    return key if name == "components" and not place else place


def _fields(value: object, name: str, *, is_inside: bool) -> Iterator[tuple[str, Any, str, bool]]:
    """Yield the key, the entry, and the name of each field of an object, and whether everything in it is secret."""
    entries = cast("Mapping[str, Any]", value)
    hides, names_value = is_inside or hides_all(name), is_secret_name(name)
    is_form_field = "type" in entries and not is_inside
    for key, entry in entries.items():
        field = find_field_name(entries, key)
        is_named = field not in ("", key) or (names_value and key in VALUE_FIELDS)
        yield key, entry, field, is_named or (hides and not (is_form_field and key in _DESCRIBES))


def _clean(value: Any, name: str, *, is_inside: bool) -> Any:
    if not value or isinstance(value, bool):
        return value
    if is_inside or (is_secret_name(name) and name.lower() not in _NOT_SECRET):
        return value if isinstance(value, str) and _only_refers(value) else ""
    return _REDACTOR.text(value) if isinstance(value, str) else value


def _only_refers(text: str) -> bool:
    """Return whether a text is references, at most after the name of a scheme, as in ``Bearer {env.token}``."""
    template = parse_template(text)
    literals = "".join(part for part in template.segments if isinstance(part, str))
    return bool(template.references) and literals.strip().lower() in _SCHEMES


_REDACTOR = Redactor()


MAX_CHARS = 60
"""Maximum length of a name without its ending."""

_UNSAFE = re.compile(r"[^\w-]+", re.ASCII)
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")


def choose_name(title: str, id_: str, taken: Container[str]) -> str:
    """Return a name for a title that is not ``taken``: lower case letters, digits, ``_`` and ``-``.

    Lower case, because names that differ only in case are one file on some systems. The id makes it different.

    >>> choose_name("Customer Service / DE", "a1b2c3d4e5", ())
    'customer_service_de'
    >>> choose_name("../../etc/passwd", "a1b2c3d4e5", ("etc_passwd",))
    'etc_passwd-a1b2c3d4'
    >>> choose_name("CON", "a1b2c3d4e5", ())
    'con-a1b2c3d4'
    """
    plain = unicodedata.normalize("NFKD", title[:1_000]).encode("ascii", "ignore").decode()
    name = _UNSAFE.sub("_", plain.lower()).strip("_-")[:MAX_CHARS].strip("_-")
    if name and name not in taken and not _RESERVED.fullmatch(name):
        return name
    name = f"{name or 'agent'}-{_UNSAFE.sub('', id_).lower()[:8] or 'x'}"
    if name not in taken:
        return name
    return f"{name}-{sha256(id_.encode('utf-8', 'replace')).hexdigest()[:16]}"
