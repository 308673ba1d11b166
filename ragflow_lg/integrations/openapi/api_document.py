"""Reading OpenAPI documents (3.0 and 3.1): the operations, as tools with JSON schemas.

Documents are hostile: references to other documents are refused, those to parts of the document stay references, so
that cycles and repetitions cost nothing, and sizes are limited.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, cast

from ragflow_lg.base.errors import ForeignJsonError, ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.json_scanner import JsonLimits, parse_foreign_json
from ragflow_lg.base.lenient_values import as_items, as_map
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.base.worker_tasks import measure, worker_task

MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
MAX_OPERATIONS = 1_000
MAX_OPERATION_CHARS = 5_000_000
"""For all operations together: each has the schemas that it refers to."""
MAX_SCHEMA_CHARS = 50_000
"""Arguments with a larger schema are offered without it."""
_MAX_ADDRESS = 2_000
_MAX_PARTS, _MAX_DEPTH = 5_000, 60
_MAX_DESCRIPTION = 1_000
_METHODS = ("get", "head", "post", "put", "patch", "delete")
_LIMITS = JsonLimits(MAX_DOCUMENT_BYTES, 2_000_000)
_LEFT_OUT = frozenset(("discriminator", "example", "examples", "externalDocs", "xml"))
_LITERALS = frozenset(("const", "default", "enum"))
_MAPS = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
_STYLES = {"path": "simple", "header": "simple", "query": "form", "cookie": "form"}
_IGNORED_HEADERS = frozenset(("accept", "authorization", "content-type"))  # as the specification says
_SCALARS = (
    ("null", ["", "~", "n"], r"~|null|"),
    ("bool", ["t", "f"], r"true|false"),
    ("int", [*"-0123456789"], r"-?(0|[1-9][0-9]*)"),
    ("float", [*"-0123456789"], r"-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?"),
)
"""The plain scalars of YAML that are no texts, as OpenAPI says: those of JSON, and empty ones."""
BODY = "body"


class Parameter(NamedTuple):
    """How an argument is sent. ``place`` is ``path``, ``query``, ``header`` or ``cookie``."""

    argument: str
    name: str
    place: str
    style: str
    explodes: bool
    is_json: bool = False


class Scheme(NamedTuple):
    """Where a key is sent: in a header, a query parameter or a cookie, after a prefix such as ``Bearer``."""

    place: str
    name: str
    prefix: str = ""


class Operation(NamedTuple):
    """An operation of an API. The worker that reads the document returns its fields as JSON."""

    name: str
    method: str
    path: str
    server: str
    """The address in the document, which may be relative or ``""``."""
    description: str
    schema: Mapping[str, Any]
    parameters: tuple[Parameter, ...]
    body_type: str
    """The media type of the body, or ``""`` if it has none."""
    scheme: Scheme | None


class _RefusedError(Exception):
    """An operation cannot be offered; the text says why."""


@worker_task("Reading an OpenAPI document", seconds=60.0, small_size=10_000)
def read_document(
    text: str, allow: Collection[str] | None = None, headers: Collection[str] = (), has_key: bool = False
) -> list[Any]:
    """Return the operations of a document that are allowed, and what is wrong with it.

    Arguments do not replace the ``headers`` that the settings name, nor the key.

    Raises:
        ServiceError: if it is no OpenAPI document, or too large.
    """
    document = _parse(text)
    version = to_text(document.get("openapi"))
    if not version.startswith(("3.0", "3.1")):
        raise ServiceError(f"It is no OpenAPI document of version 3.0 or 3.1 (openapi: {version[:20]!r}).")
    operations: dict[str, Operation] = {}
    problems: list[str] = []
    own = {_identify("header", name) for name in (*_IGNORED_HEADERS, *headers)}
    size = 0
    for path, method, item, entry in _entries(document):
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", to_text(entry.get("operationId")) or f"{method}{path}").strip("_")
        if allow is not None and name not in allow:
            continue
        if len(operations) == MAX_OPERATIONS or size > MAX_OPERATION_CHARS:
            problems.append(f"Only {len(operations):,} operations are offered: the others are too many or too large.")
            break
        try:
            if name in operations:
                raise _RefusedError("another operation has the same name")
            operations[name] = _Reader(document, own, has_key).read(name, method.upper(), path, item, entry)
            size += measure(operations[name], MAX_OPERATION_CHARS)
        except _RefusedError as error:
            problems.append(f"{name[:80]}: {error}.")
    if has_key and (keyless := [name for name, operation in operations.items() if operation.scheme is None]):
        names = ", ".join(keyless)[:_MAX_DESCRIPTION]
        problems.insert(0, f"The key is not sent with {names}: the document names no scheme that is one key.")
    return [list(operations.values()), problems]


def _parse(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ServiceError(f"The document has more than {MAX_DOCUMENT_BYTES:,} characters.")
    try:
        value = parse_foreign_json(text, _LIMITS) if text.lstrip()[:1] in ("{", "[") else _parse_yaml(text)
    except ForeignJsonError as error:
        raise ServiceError(f"The JSON of the document {error}.") from None
    if not isinstance(value, dict):
        raise ServiceError("The document is no map.")
    return cast("Mapping[str, Any]", value)


def _parse_yaml(text: str) -> Any:
    require("openapi", "An OpenAPI document in YAML")
    import yaml

    events: Any = cast("Any", yaml).parse
    loader: Any = type("Loader", (yaml.CSafeLoader,), {"yaml_implicit_resolvers": {}})
    for kind, begins, pattern in _SCALARS:
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), begins)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in events(text, Loader=loader)):
            raise ServiceError("The YAML of the document has aliases, which are not read.")
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ServiceError(f"The document is neither JSON nor YAML: {str(error)[:200]}") from None


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]:
    for path, value in as_map(document.get("paths")).items():
        item = as_map(value)
        for method in _METHODS:
            if isinstance(item.get(method), dict) and str(path).startswith("/"):
                yield str(path), method, item, as_map(item[method])


class _Reader:
    """Reads one operation. The schemas that it refers to become ``$defs`` of its arguments."""

    def __init__(self, document: Mapping[str, Any], own: Collection[tuple[str, str]], has_key: bool) -> None:
        self._document = document
        self._own = own
        self._has_key = has_key
        self._names: dict[str, str] = {}
        self._defs: dict[str, Any] = {}
        self._parts = 0

    def read(self, name: str, method: str, path: str, item: Mapping[str, Any], entry: Mapping[str, Any]) -> Operation:
        properties: dict[str, Any] = {}
        required: list[str] = []
        parameters: list[Parameter] = []
        scheme = self._scheme(entry)
        for declared in self._declared(item, entry, scheme):
            parameter, schema = self._parameter(declared, properties)
            parameters.append(parameter)
            properties[parameter.argument] = schema
            if declared.get("required") or parameter.place == "path":
                required.append(parameter.argument)
        if missing := set(re.findall(r"{([^}]*)}", path)) - {p.name for p in parameters if p.place == "path"}:
            raise _RefusedError(f"the path parameter {min(missing)[:80]!r} is not declared")
        body_type = ""
        if "requestBody" in entry:
            body = self._follow(entry["requestBody"])
            body_type, properties[BODY] = self._body(body, BODY in properties)
            required += [BODY] if body.get("required") else []
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        if self._defs:
            schema["$defs"] = self._defs
        if measure(schema, MAX_SCHEMA_CHARS) > MAX_SCHEMA_CHARS:
            schema.pop("$defs", None)
            schema["properties"] = {name: {} for name in properties}
        texts = (to_text(entry.get(key)).strip() for key in ("summary", "description"))
        description = "\n".join(dict.fromkeys(filter(None, texts)))[:_MAX_DESCRIPTION] or f"{method} {path}"
        server = self._server(entry) or self._server(item) or self._server(self._document)
        return Operation(name, method, path, server, description, schema, tuple(parameters), body_type, scheme)

    def _declared(
        self, item: Mapping[str, Any], entry: Mapping[str, Any], scheme: Scheme | None
    ) -> list[Mapping[str, Any]]:
        """Return the parameters of an operation, which replace those of its path with the same name."""
        own = {*self._own, _identify(scheme.place, scheme.name)} if scheme and self._has_key else self._own
        declared: dict[tuple[str, str], Mapping[str, Any]] = {}
        for value in [*as_items(item.get("parameters") or []), *as_items(entry.get("parameters") or [])]:
            parameter = self._follow(value)
            key = _identify(to_text(parameter.get("in")), to_text(parameter.get("name")))
            if key[0] not in _STYLES or not key[1]:
                raise _RefusedError("a parameter has no name or no place")
            if key not in own:
                declared[key] = parameter
        return list(declared.values())

    def _parameter(self, declared: Mapping[str, Any], taken: Mapping[str, Any]) -> tuple[Parameter, Any]:
        name, place = to_text(declared["name"]), to_text(declared["in"])
        argument = name if name not in taken else f"{name}_{place}"
        style = to_text(declared.get("style")) or _STYLES[place]
        explodes = declared.get("explode")
        explodes = explodes if isinstance(explodes, bool) else style in ("form", "deepObject")
        media = next(iter(as_map(declared.get("content")).values()), None)
        schema = self._schema(as_map(media).get("schema") if media is not None else declared.get("schema"))
        if text := to_text(declared.get("description")):
            schema = {**schema, "description": text[:_MAX_DESCRIPTION]}
        return Parameter(argument, name, place, style, explodes, media is not None), schema

    def _body(self, body: Mapping[str, Any], is_taken: bool) -> tuple[str, Any]:
        contents = as_map(body.get("content"))
        kinds = {to_text(kind).partition(";")[0].strip().lower(): as_map(media) for kind, media in contents.items()}
        json_type = next((kind for kind in kinds if kind == "application/json" or kind.endswith("+json")), "")
        kind = json_type or next((k for k in ("application/x-www-form-urlencoded", "text/plain") if k in kinds), "")
        if not kind or is_taken:
            raise _RefusedError(f"its body is of a type that is not sent: {', '.join(kinds)[:80] or 'none'}")
        return kind, self._schema(kinds[kind].get("schema")) if kind != "text/plain" else {"type": "string"}

    def _server(self, owner: Mapping[str, Any]) -> str:
        server = as_map(next(iter(as_items(owner.get("servers") or [])), None))
        url = to_text(server.get("url"))
        for name, variable in as_map(server.get("variables")).items():
            url = url.replace(f"{{{name}}}", to_text(as_map(variable).get("default"))[:_MAX_ADDRESS])
            if len(url) > _MAX_ADDRESS:
                raise _RefusedError("its address is too long")
        return url

    def _scheme(self, entry: Mapping[str, Any]) -> Scheme | None:
        """Return where the key is sent: as the first alternative says that needs one key and no more."""
        known = as_map(as_map(self._document.get("components")).get("securitySchemes"))
        alternatives = as_items(entry.get("security", self._document.get("security")) or [])
        names = [name for each in alternatives if len(as_map(each)) == 1 for name in as_map(each)]
        return next(filter(None, (_read_scheme(self._follow(known.get(name))) for name in names)), None)

    def _follow(self, value: Any) -> Mapping[str, Any]:
        """Return the object that a reference leads to."""
        for _ in range(_MAX_DEPTH):
            reference = as_map(value).get("$ref")
            if not isinstance(reference, str):
                return as_map(value)
            value = self._look_up(reference)
        raise _RefusedError("a reference leads to itself")

    def _look_up(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise _RefusedError(f"it refers to another document ({reference[:80]!r})")
        value: Any = self._document
        for part in reference[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~").replace("%7B", "{").replace("%7D", "}")
            value = as_map(value).get(part)
        if not isinstance(value, dict | bool):
            raise _RefusedError(f"it refers to something that is missing ({reference[:80]!r})")
        return cast("Any", value)

    def _schema(self, value: Any, depth: int = 0) -> Any:
        """Return a schema for the model, with its references as ``$defs`` and the keywords of 3.0 as those of 3.1."""
        self._parts += 1
        if self._parts > _MAX_PARTS or depth > _MAX_DEPTH:
            raise _RefusedError("the schema of its arguments is too large")
        if depth == 0 and not isinstance(value, dict):
            if value is None or value is True:
                return {}
            raise _RefusedError("the schema of an argument is no map")
        if isinstance(value, list):
            return [self._schema(part, depth + 1) for part in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        schema = cast("dict[str, Any]", value)
        if isinstance(reference := schema.get("$ref"), str):
            return {"$ref": f"#/$defs/{self._define(reference, depth)}"}
        return _modernize({k: self._keyword(k, v, depth + 1) for k, v in schema.items() if k not in _LEFT_OUT})

    def _keyword(self, keyword: str, value: Any, depth: int) -> Any:
        if keyword in _LITERALS:
            return value
        if keyword in _MAPS:
            return {to_text(name): self._schema(part, depth) for name, part in as_map(value).items()}
        return self._schema(value, depth)

    def _define(self, reference: str, depth: int) -> str:
        if reference not in self._names:
            base = re.sub(r"\W+", "_", reference.rpartition("/")[2]) or "part"
            name = base if base not in self._defs else f"{base}_{len(self._defs)}"
            self._names[reference], self._defs[name] = name, {}
            self._defs[name] = self._schema(self._look_up(reference), depth + 1)
        return self._names[reference]


def _identify(place: str, name: str) -> tuple[str, str]:
    return place, name.lower() if place == "header" else name


def _modernize(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace the keywords of OpenAPI 3.0 that JSON Schema does not know."""
    is_nullable = schema.pop("nullable", False) is True
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(is_exclusive := schema.get(exclusive), bool):
            del schema[exclusive]
            if is_exclusive and limit in schema:
                schema[exclusive] = schema.pop(limit)
    return {"anyOf": [schema, {"type": "null"}]} if is_nullable else schema


def _read_scheme(scheme: Mapping[str, Any]) -> Scheme | None:
    kind, name = to_text(scheme.get("type")), to_text(scheme.get("name"))
    if kind == "apiKey" and name and scheme.get("in") in ("header", "query", "cookie"):
        return Scheme(to_text(scheme["in"]), name)
    if kind == "http":
        prefix = {"bearer": "Bearer", "basic": "Basic"}.get(to_text(scheme.get("scheme")).lower(), "")
        return Scheme("header", "Authorization", prefix) if prefix else None
    return Scheme("header", "Authorization", "Bearer") if kind in ("oauth2", "openIdConnect") else None


def restore_operations(values: JsonValue) -> dict[str, Operation]:
    """Return the operations from the fields that a worker has returned, by name."""
    operations: dict[str, Operation] = {}
    for fields in cast("list[Any]", values):
        operation = Operation(*fields)
        parameters = tuple(Parameter(*parameter) for parameter in operation.parameters)
        scheme = operation.scheme and Scheme(*operation.scheme)
        operations[operation.name] = operation._replace(parameters=parameters, scheme=scheme)
    return operations
