"""Forms: the fields that Begin and UserFillUp declare, and the validation of submitted values.

Source: RAGFlow's ``agent/component/begin.py`` and ``fillup.py``. RAGFlow accepts any answer; here an answer is
validated before it resumes a run (``docs/fidelity.md``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.dsl.field_values import UnfitValueError, convert_value, option_texts

MAX_OPTIONS = 1_000

_FILE: dict[str, Any] = {
    "type": "object",
    "description": 'A file: {"name": "a.txt", "content": "its text, or a data: URI"}.',
    "properties": {"name": {"type": "string"}, "content": {"type": "string"}},
}
_TYPES: Mapping[str, str] = {"integer": "integer", "number": "number", "boolean": "boolean", "object": "object"}
"""The JSON types of form fields; all other fields are text."""


class FormField(NamedTuple):
    """One field, as the canvas declares it."""

    name: str
    label: str
    type: str
    is_optional: bool = False
    options: tuple[JsonValue, ...] = ()
    value: JsonValue = None

    @property
    def display_name(self) -> str:
        """The field's label, and its name for use in an answer."""
        return f"{self.label!r} ({self.name})" if self.label != self.name else repr(self.name)


class Form(NamedTuple):
    """A form for the user. ``fields`` maps each name to its declaration, as sent to clients."""

    tips: str
    fields: Mapping[str, Mapping[str, JsonValue]]


def form_fields(declared: Any) -> Iterator[FormField]:
    """Yield the fields of an ``inputs`` parameter; an entry that is not a map yields an undeclared field."""
    if not isinstance(declared, Mapping):
        return
    for name, value in cast("Mapping[str, Any]", declared).items():
        field = as_map(value)
        options = field.get("options")
        yield FormField(
            name,
            to_text(field.get("name")) or name,
            to_text(field.get("type")) or "line",
            bool(field.get("optional")),
            tuple(cast("list[Any]", options)) if isinstance(options, list) else (),
            field.get("default") if field.get("value") is None else field["value"],
        )


def is_file(type_name: str) -> bool:
    """Return whether a field of this type accepts files."""
    return "file" in type_name.lower()


def stored_files(files: Sequence[Any]) -> list[Any]:
    """Return the files without their contents: a map with ``id`` and ``name``, or null for a file without an id.

    >>> stored_files([{"id": "1", "name": "a.csv", "content": "x"}, "text"])
    [{'id': '1', 'name': 'a.csv'}, None]
    """
    maps = (as_map(file) for file in files)
    return [{key: str(m[key]) for key in ("id", "name") if key in m} if m.get("id") else None for m in maps]


def unwrap_submission(submitted: Any, declared: Mapping[str, Any]) -> tuple[Any, str]:
    """Return a field's submitted value, unwrapped from RAGFlow's ``{"value", "type"}``, and its type.

    The type is the one declared in the canvas; a client's type is used only for undeclared fields.
    """
    wrapper = as_map(submitted)
    is_wrapper = "value" in wrapper or "type" in wrapper
    value: Any = wrapper.get("value") if is_wrapper else submitted
    return value, str(declared.get("type") or (wrapper.get("type") if is_wrapper else None) or "")


def read_value(value: Any, type_name: str, options: Sequence[JsonValue] = ()) -> JsonValue:
    """Return a submitted value as its field's type. A value that the field does not accept is returned unchanged.

    >>> read_value("7", "integer"), read_value("seven", "integer")
    (7, 'seven')
    """
    try:
        return convert_value(value, type_name, options)
    except UnfitValueError:
        return value


def declared_options(declared: Any) -> Sequence[JsonValue]:
    """Return the options of a field's declaration; an empty list if it has none."""
    options = as_map(declared).get("options")
    return cast("list[Any]", options) if isinstance(options, list) else []


def form_problems(declared: Any, answer: Mapping[str, Any]) -> dict[str, str]:
    """Return an answer's problems by field name; an empty dict if the answer is valid.

    A required field must be present and not null. ``""`` is a value of a text field only.
    """
    problems: dict[str, str] = {}
    for field in form_fields(declared):
        value, type_name = unwrap_submission(answer.get(field.name), as_map(declared[field.name]))
        try:
            is_missing = value in (None, "", []) if is_file(field.type) else _is_missing(value, type_name, field)
        except UnfitValueError as error:
            problems[field.name] = f"{field.display_name} should be {error}, not {_describe(error.value)}."
            continue
        if is_missing and not field.is_optional:
            problems[field.name] = f"{field.display_name} is required."
    return problems


def begin_answer(names: Collection[str], inputs: Any, query: Any) -> Mapping[str, Any]:
    """Return the fields that a request fills in Begin's form: its ``inputs`` or, without any, those from the query.

    As in RAGFlow, a query that is a map fills the fields that it names, and a text fills the only field.

    >>> begin_answer(["a", "b"], {}, {"b": 1}), begin_answer(["a"], None, "Hi")
    ({'b': {'value': 1}}, {'a': {'value': 'Hi'}})
    """
    if inputs:
        return as_map(inputs)
    if isinstance(query, Mapping):
        values = as_map(query)
        return {name: _wrap(values[name]) for name in names if name in values}
    return {next(iter(names)): {"value": query}} if query and len(names) == 1 else {}


def _wrap(value: Any) -> dict[str, Any]:
    """Return the field for a value in the query; as in RAGFlow, a map is a field, whose value it may lack."""
    return {"value": None, **as_map(value)} if isinstance(value, Mapping) else {"value": value}


def _is_missing(value: Any, type_name: str, field: FormField) -> bool:
    return convert_value(value, type_name, field.options) is None


def _describe(value: Any) -> str:
    """Describe a value. A map or list, which may be deeply nested, is described only by its type."""
    if isinstance(value, Mapping):
        return "a map"
    return "a list" if isinstance(value, list) else f"{value!r:.80}"


def parse_answers(declared: Any, answer: Any) -> dict[str, Any]:
    """Return an answer by field name. It may be ``{"inputs": {…}}``, the fields, or the value of the only field."""
    if isinstance(answer, Mapping):
        fields = cast("Mapping[str, Any]", answer)
        inner = fields.get("inputs")
        return dict(cast("Mapping[str, Any]", inner)) if isinstance(inner, Mapping) else dict(fields)
    names = [field.name for field in form_fields(declared)]
    return {names[0]: answer} if len(names) == 1 else {}


def field_type(field: FormField) -> dict[str, Any]:
    """Return the JSON type and the options of a field that is not a file field.

    >>> field_type(FormField("size", "Size", "options", options=("S", "L")))
    {'type': 'string', 'enum': ['S', 'L']}
    """
    kind = field.type.lower()
    schema: dict[str, Any] = {"type": _TYPES.get(kind, "string")}
    if kind == "options" and field.options:
        schema["enum"] = option_texts(field.options)
    return schema


def form_schema(declared: Any) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) for answers to a form, in which each field is a plain value.

    The schema accepts every valid answer. It also accepts some invalid ones, such as numbers as text.
    """
    fields = list(form_fields(declared))
    return {
        "type": "object",
        "properties": {field.name: _property(field) for field in fields},
        "required": [field.name for field in fields if not field.is_optional],
        "additionalProperties": False,
    }


def _property(field: FormField) -> dict[str, Any]:
    if is_file(field.type):
        schema: dict[str, Any] = {"type": "array", "items": {}}
        if not field.is_optional:
            schema["minItems"] = 1
    else:
        schema = field_type(field)
    if field.is_optional:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    schema["title"] = field.label
    if field.value not in (None, "", [], {}):
        schema["default"] = field.value
    return schema


# LangGraph chat UIs


def response_schema(declared: Any, tips: str = "") -> dict[str, Any]:
    """Return the schema from which a LangGraph chat UI renders the fields of an ``inputs`` parameter.

    ``tips`` is the text of the form.

    >>> response_schema({"size": {"name": "Size", "type": "integer"}})["properties"]["size"]
    {'title': 'Size', 'type': 'integer'}
    """
    fields = list(form_fields(declared))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: field_schema(field) for field in fields},
        "required": [field.name for field in fields if not field.is_optional],
    }
    return {**schema, "description": tips} if tips else schema


def field_schema(field: FormField) -> dict[str, Any]:
    """Return the schema for one field; the default type is text."""
    kind = field.type.lower()
    title_schema: dict[str, Any] = {"title": field.label}
    if is_file(kind):
        return {**title_schema, "type": "array", "items": _FILE}
    texts = option_texts(field.options[:MAX_OPTIONS]) if kind == "options" else []
    schema: dict[str, Any] = {**title_schema, "type": _TYPES.get(kind, "string")}
    if texts:
        schema["enum"] = list(dict.fromkeys(texts))
    if isinstance(field.value, str | int | float | bool) and _fits(field.value, schema["type"]):
        schema["default"] = field.value
    return schema


def _fits(value: object, kind: str) -> bool:
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    expected = {"string": str, "integer": int, "number": (int, float)}.get(kind)
    return expected is not None and value != "" and isinstance(value, expected)
