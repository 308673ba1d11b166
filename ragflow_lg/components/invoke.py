"""Invoke: send an HTTP request."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import Annotated, Any, Literal, TypeAlias, cast
from urllib.parse import quote, quote_plus

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, ForeignJsonError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import html_to_text
from ragflow_lg.base.json_scanner import TEXT_LIMITS, check_json, parse_foreign_json
from ragflow_lg.base.values import MAX_CHARS, MAX_NAME_PARTS, MAX_PARSED_CHARS, JsonValue, join_texts, to_text
from ragflow_lg.base.worker_tasks import measure, worker_task
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, OnceParams, OneOrMany
from ragflow_lg.dsl import old_values
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.services.http import HttpRequest

OWN_TIME_S = 3.0
"""Time limit for a node in addition to its requests; in RAGFlow, the limit for all of Invoke."""

MAX_URL_CHARS = 64 * 1024
MAX_HEADER_CHARS = 64 * 1024
JSON_TYPE, FORM_TYPE = "application/json", "application/x-www-form-urlencoded"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_BARE_SCHEME = re.compile(r"(?:https?:?/{0,2})?", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_QUOTE_OR_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
_BOUNDARY = re.compile(r"""\bboundary\s*=\s*"?([^";]+)""", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _upper(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return "json" if value is None else value.strip().lower() if isinstance(value, str) else value


def _header_map(value: Any) -> Any:
    """Read headers from JSON text or an object; other values become text, and null drops the header."""
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            value = parse_foreign_json(value)
        except ForeignJsonError:
            raise ValueError('the headers must be a JSON object, such as {"Accept": "text/plain"}') from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("the headers must be a JSON object of names and values")
    entries = cast("Mapping[str, Any]", value).items()
    return {
        name: entry if isinstance(entry, Template) else to_text(entry) for name, entry in entries if entry is not None
    }


def _with_scheme(url: str) -> str:
    url = url.strip()
    return url if not url or _SCHEME.match(url) else "http://" + url.lstrip("/")


def _proxy_url(value: str) -> str:
    """Normalize a proxy URL; blank text or a bare scheme means no proxy."""
    return "" if _BARE_SCHEME.fullmatch(value.strip()) else _with_scheme(value)


def _or_blank(value: Any) -> Any:
    return "" if value is None else value


def _check_url(url: Template) -> Template:
    if not url.source.strip():
        raise ValueError("the URL is missing")
    return url


def _template_text(value: Any) -> Any:
    return str(value) if isinstance(value, Template) else value


class Variable(BaseModel):
    """One argument of the request; ``ref`` takes precedence over ``value``."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True, defer_build=True)

    key: str = ""
    ref: Annotated[Reference | str | None, Field(union_mode="left_to_right")] = None
    value: Annotated[Template | Any, Field(union_mode="left_to_right"), PlainSerializer(_template_text)] = None


Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]


class Params(OnceParams):
    """Parameters of Invoke. ``timeout`` is in seconds per attempt."""

    url: Annotated[Template, AfterValidator(_check_url)]
    method: Annotated[Method, BeforeValidator(_upper)] = "GET"
    headers: Annotated[dict[str, Template], BeforeValidator(_header_map)] = Field(default_factory=dict[str, Template])
    variables: OneOrMany[Variable] = Field(default_factory=list[Variable])
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    proxy: Annotated[str, BeforeValidator(_or_blank), AfterValidator(_proxy_url)] = ""
    clean_html: bool | None = False
    datatype: Annotated[Literal["json", "formdata"], BeforeValidator(_lower)] = "json"
    body: Template = Template("", ())
    """The whole body as RAGFlow 1.0 writes it, in place of ``variables``. References in it are replaced."""
    content_type: Annotated[str, BeforeValidator(_or_blank)] = ""
    """The type of ``body``; JSON if it is blank."""


class Outputs(ComponentOutputs):
    """``result`` is the response text, regardless of status; this is RAGFlow's only output."""

    result: str = ""
    status_code: int = 0
    headers: dict[str, str] = Field(default_factory=dict[str, str])


def _lint(params: Params) -> Iterable[Finding]:
    has_body = bool(params.body.source)
    if has_body and any(variable.key for variable in params.variables):
        message = "The variables are not sent, because the request has a body, as in RAGFlow 1.0."
        yield Finding("params-unsupported", "warning", ("variables",), message, "Remove either of them.")
    if params.content_type and not has_body:
        message = "content_type has no effect, because there is no body; variables are sent as datatype says."
        yield Finding("params-unsupported", "warning", ("content_type",), message, "Write a body or set datatype.")
    if not has_body and params.datatype == "json" and params.method not in ("GET", "HEAD"):
        yield from _lint_keys(params)


def _lint_keys(params: Params) -> Iterable[Finding]:
    """Report keys that the JSON body has only once."""
    last = {variable.key: index for index, variable in enumerate(params.variables)}
    for index, variable in enumerate(params.variables):
        if variable.key and index != last[variable.key]:
            message = f"The key {variable.key!r} is there again below: the JSON body has only the last value."
            hint = "Use another key, or a list as the value."
            yield Finding("params-invalid", "warning", ("variables", index, "key"), message, hint)


@component(
    "Invoke",
    params=Params,
    outputs=Outputs,
    timeout_s=lambda params: OWN_TIME_S + params.timeout * (1 + (params.max_retries or 0)),
    retries=True,
    effects=lambda ctx, params: "reads" if params.method in ("GET", "HEAD") else "writes",
    shows_default=True,
    lint=_lint,
    description="Send an HTTP request and return the response text.",
    source="agent/component/invoke.py",
)
async def invoke(ctx: RunContext, params: Params) -> Outputs:
    """Send the body; without one, the variables as a query string (GET, HEAD), or else as a JSON body or a form."""
    request = _request(ctx, params)
    if params.clean_html:
        require("html", "Invoke with clean_html")  # before anything is sent
    response = await ctx.services.http.send(request)
    result = response.text
    if params.clean_html:
        result = await ctx.services.workers.run(page_text, result)
    return Outputs(result=result, status_code=response.status, headers=dict(response.headers))


@worker_task("Converting the page to text", small_size=4_096)
def page_text(page: str) -> str:
    """Return the text of an HTML page."""
    try:
        return html_to_text(page)
    except ValueError as error:
        raise ComponentError(f"The answer is {error}.") from None


def _request(ctx: RunContext, params: Params) -> HttpRequest:
    ctx.report_inputs({})  # only the variables: URLs and headers often contain keys
    headers = {name: _header(ctx, name, value) for name, value in params.headers.items()}
    body: bytes | None = None
    if params.body:
        given = (value for name, value in headers.items() if name.lower() == "content-type")
        kind = next(given, params.content_type.strip() or JSON_TYPE)
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        headers["Content-Type"] = kind
        body = _body(ctx, params.body, kind)
    pairs = [(v.key, _argument(ctx, v)) for v in params.variables if v.key and body is None]
    ctx.charge_chars(measure(pairs, MAX_CHARS))
    in_url = params.method in ("GET", "HEAD")
    in_form = not in_url and params.datatype == "formdata" and body is None
    # A DELETE without arguments has no body: some servers reject an empty one.
    in_body = not in_url and not in_form and body is None and (bool(pairs) or params.method != "DELETE")
    texts = {} if in_body else _texts_by_key(ctx, params, pairs)
    return HttpRequest(
        params.method,
        _address(ctx, params.url),
        headers,
        query=texts if in_url else {},
        json=_read_body(ctx, dict(pairs)) if in_body else None,
        form=texts if in_form else None,
        body=body,
        proxy=params.proxy,
        timeout_s=params.timeout,
        text_charset="latin-1" if ctx.compatibility.old_values else "",
    )


def _body(ctx: RunContext, template: Template, content_type: str) -> bytes:
    """Render the body; values are escaped for their place in JSON, XML and forms, and cannot end a part of it.

    In JSON, one outside of quotes is a JSON value. In XML, one that is the whole body is the document.
    """
    kind = content_type.partition(";")[0].strip().lower()
    texts = [segment for segment in template.segments if isinstance(segment, str)]
    write: Callable[[str], str] = str
    if kind == FORM_TYPE:
        write = partial(quote_plus, errors="replace")
    elif kind.endswith("xml") and any(map(str.strip, texts)):
        write = escape
    values = {reference.text: _known_value(ctx, reference) for reference in template.references}
    parsed = _read_body(ctx, values) if kind.endswith("json") else {}

    def pieces() -> Iterator[str]:
        is_quoted = False
        for segment in template.segments:
            if isinstance(segment, str):
                is_quoted ^= _QUOTE_OR_ESCAPE.findall(segment).count('"') % 2 == 1
                yield segment
            elif not parsed:
                yield ctx.charge(write(to_text(values[segment.text])))
            elif is_quoted:
                yield ctx.charge(json.dumps(to_text(values[segment.text]))[1:-1])
            else:
                yield ctx.charge(json.dumps(parsed[segment.text]))

    body = join_texts(pieces())
    if kind.startswith("multipart/") and (match := _BOUNDARY.search(content_type)):
        boundary = f"--{match[1].strip()}"
        if body.count(boundary) > sum(text.count(boundary) for text in texts):
            raise ComponentError(f"A value contains the boundary of the parts, {boundary}.", node=ctx.node.id)
    return body.encode(errors="replace")


def _address(ctx: RunContext, template: Template) -> str:
    """Render the URL; values are escaped for the part of it in which they stand."""
    address = ""
    for place, segment in enumerate(template.segments):
        if isinstance(segment, Reference):
            after = template.segments[place + 1 : place + 2]
            text = ctx.text_of(segment)
            _check_length("address", len(address) + len(text), MAX_URL_CHARS)
            try:
                segment = escape_value(address, text, after[0] if after and isinstance(after[0], str) else "")
            except ValueError as error:
                raise ComponentError(f"The address is not valid: {error}.", node=ctx.node.id) from None
        address += segment
    address = ctx.charge(_with_scheme(address))
    return _CONTROL.sub(lambda match: f"%{ord(match[0]):02X}", escape_percent(address))


def _check_length(what: str, length: int, limit: int) -> None:
    if length > limit:
        raise ComponentError(f"The {what} has more than {limit:,} characters.")


def _texts_by_key(
    ctx: RunContext, params: Params, pairs: Sequence[tuple[str, JsonValue]]
) -> dict[str, str | list[str]]:
    """Return the texts of a query or a form. A key of several variables is repeated, as for the items of a list."""
    if ctx.compatibility.old_values:
        values = _read_body(ctx, dict(pairs)) if params.datatype == "json" else dict(pairs)
        return {key: old_values.query_texts(value) for key, value in values.items()}
    texts: dict[str, str | list[str]] = {}
    for key, value in pairs:
        added = _texts(value)
        texts[key] = added if key not in texts else [*_as_list(texts[key]), *_as_list(added)]
    return texts


def _as_list(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _texts(value: JsonValue) -> str | list[str]:
    """Return the texts that a query or a form has for a key: one for each item of a list, except for nulls."""
    if isinstance(value, list):
        return [to_text(item) for item in cast("list[Any]", value) if item is not None]
    return to_text(value)


def _argument(ctx: RunContext, variable: Variable) -> JsonValue:
    """Return the value of the reference unless it is null, else ``value``, else ``ref`` if it is no reference.

    ``value`` also replaces an undeclared global.
    """
    fallback = ctx.resolve(variable.value)
    fallback = None if fallback == "" else fallback
    if not isinstance(variable.ref, Reference):
        return fallback if fallback is not None else variable.ref or ""
    value = ctx.peek(variable.ref)
    if value == "" and not _is_known(ctx, variable.ref):
        if variable.ref.kind != "global" or fallback is None:
            raise _unknown(ctx, variable.ref)
        return fallback
    sent = next((choice for choice in (value, fallback) if choice is not None), "")
    ctx.inputs[variable.ref.text] = sent
    return sent


def _unknown(ctx: RunContext, reference: Reference) -> ComponentError:
    return ComponentError(f"Can't find variable: {reference.text!r}", node=ctx.node.id)


def _is_known(ctx: RunContext, reference: Reference) -> bool:
    """Return whether the reference names a component, or a global or a part of one."""
    if reference.kind != "global":
        return reference.node in ctx.plan.nodes
    parts = reference.key.split(".", MAX_NAME_PARTS)
    return any(ctx.global_value(".".join(parts[:end])) is not None for end in range(2, len(parts) + 1))


def _read_body(ctx: RunContext, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    texts = [value for value in arguments.values() if isinstance(value, str) and value.lstrip()[:1] in ("{", "[")]
    if sum(map(len, texts)) > MAX_PARSED_CHARS:
        raise ComponentError(
            f"The variables contain more than {MAX_PARSED_CHARS:,} characters of JSON text.", node=ctx.node.id
        )
    return {key: _read_json(value) for key, value in arguments.items()}


def _read_json(value: JsonValue) -> JsonValue:
    """Parse text that is JSON. RAGFlow also does this in query strings and forms, where it loses ``1.0``."""
    if not isinstance(value, str):
        return value
    try:
        check_json(value, TEXT_LIMITS)
        return json.loads(value, parse_constant=_reject_constant, parse_float=_read_float)
    except (ForeignJsonError, ValueError, RecursionError):
        return value


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _read_float(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is too large")
    return number


def _header(ctx: RunContext, name: str, template: Template) -> str:
    """Render a header value; plain names that are no variables stay unchanged."""
    pieces = (
        _fill_names(ctx, segment) if isinstance(segment, str) else to_text(_known_value(ctx, segment))
        for segment in template.segments
    )
    header = ctx.charge(join_texts(pieces))
    _check_length(f"header {name!r}", len(header), MAX_HEADER_CHARS)
    return header


def _fill_names(ctx: RunContext, text: str) -> str:
    """Return a text with the values of its global names."""
    pieces: list[str] = []
    at = 0
    for match in _PLAIN_NAME.finditer(text):
        pieces += [text[at : match.start()], ctx.charge(_global_text(ctx, match))]
        at = match.end()
    return join_texts([*pieces, text[at:]])


def _global_text(ctx: RunContext, match: re.Match[str]) -> str:
    value = ctx.global_value(match[1])
    return match[0] if value is None else to_text(value)


def _known_value(ctx: RunContext, reference: Reference) -> JsonValue:
    if not _is_known(ctx, reference):
        raise _unknown(ctx, reference)
    return ctx.value(reference)


_IN_PATH = "/:@!$&'()*+,;=%"
_IN_PARAMETERS = "/:@!$&'()*+,;=?%"
_IN_PARAMETER = "/:@!$'()*,=?%"
_HOST_ENDS = re.compile(r"[?#@\\\s]")
_SCHEME_ONLY = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def escape_value(before: str, value: str, after: str) -> str:
    """Return a value as it stands in an address between two texts.

    At the beginning, and alone after ``https://``, a value is an address or a part of one, and stays as it is. In a
    path it may have slashes. Directly after ``?`` or ``&`` it is a list of parameters, unless ``=`` follows. Elsewhere
    in the query it is one value. What is already escaped (``%20``) stays so.

    Raises:
        ValueError: for ``..`` in a path, which cannot be escaped and would remove what stands before it.

    >>> escape_value("https://h.test/?q=", "a&b#c", ""), escape_value("https://h.test/", "a/b?c", "/d")
    ('a%26b%23c', 'a/b%3Fc')
    """
    address = before.lstrip()
    if not address or "#" in address:
        return value
    if "?" in address:
        is_list = address[-1] in "?&" and not after.startswith("=")
        return _quote(value, _IN_PARAMETERS if is_list else _IN_PARAMETER)
    scheme, slashes, rest = address.partition("//")
    if slashes and "/" not in rest:
        if not after and _SCHEME_ONLY.fullmatch(scheme + slashes + rest):
            return value
        host, slash, path = value.partition("/")  # a host is not quoted: it may be an international name
        return _HOST_ENDS.sub(lambda match: quote(match[0], safe=""), host) + slash + _quote(path, _IN_PATH)
    if ".." in (before.rpartition("/")[2] + value + after.partition("/")[0]).split("/"):
        raise ValueError("a value in the path has the part '..'")
    return _quote(value, _IN_PATH)


def _quote(value: str, safe: str) -> str:
    return escape_percent(quote(value, safe=safe, errors="replace"))


def escape_percent(address: str) -> str:
    """Escape percent signs that do not begin an escape.

    >>> escape_percent("100%&x=%41")
    '100%25&x=%41'
    """
    return _LONE_PERCENT.sub("%25", address)
