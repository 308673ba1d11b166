"""Values of every type with odd contents in every operation on values and every filter, and in requests."""

import asyncio
import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, get_args
from urllib.parse import parse_qsl, unquote

from hypothesis import given
from hypothesis import strategies as st
from jinja2.filters import FILTERS as ALL_FILTERS

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.values import to_text
from ragflow_lg.components.data_operations import OPERATIONS as DATA_OPERATIONS
from ragflow_lg.components.list_operations import OPERATIONS as LIST_OPERATIONS
from ragflow_lg.components.variable_assigner import BY_REFERENCE, Operator
from ragflow_lg.dsl.conditions import FILTERS, OPERATORS
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.http_server import HttpServer, Received, Route
from tests.fakes.services import fake_services
from tests.harness.rows import read_rows
from tests.harness.shown_text import find_shown_problems
from tests.stores import store_opener

HOST = "echo.test"
NAMES = ("the_operation@", "env.first", "env.second", "the_request@")
"""What no request may contain."""

TEXTS = st.one_of(st.sampled_from(read_rows("odd_texts")), st.text(st.characters(codec="utf-8"), max_size=8))
SCALARS = st.one_of(
    TEXTS, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=4),
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
    ),
)
LITERALS = st.one_of(VALUES, st.just("{env.second}"), st.just("x{env.second}y"))


@st.composite
def filter_rules(draw: st.DrawFn) -> dict[str, Any]:
    return {"key": "k", "operator": draw(st.sampled_from(sorted(FILTERS))), "value": draw(LITERALS)}


@st.composite
def list_operations(draw: st.DrawFn) -> dict[str, Any]:
    params = {"query": "env.first", "operations": draw(st.sampled_from(sorted(LIST_OPERATIONS)))}
    params |= {"n": draw(VALUES), "strict": draw(VALUES), "filter": draw(filter_rules())}
    params |= {"sort_method": draw(st.sampled_from(["", "desc"])), "sort_by": draw(st.sampled_from(["", "k", "k,j"]))}
    return node("ListOperations", params)


@st.composite
def data_operations(draw: st.DrawFn) -> dict[str, Any]:
    keys = st.lists(TEXTS, max_size=2)
    params: dict[str, Any] = {
        "query": ["env.first", "env.second"],
        "select_keys": draw(keys),
        "remove_keys": draw(keys),
    }
    params |= {"operations": draw(st.sampled_from(sorted(DATA_OPERATIONS))), "filter_values": [draw(filter_rules())]}
    params |= {"updates": [{"key": key, "value": draw(LITERALS)} for key in draw(keys)]}
    params |= {"rename_keys": [{"old_key": key, "new_key": draw(TEXTS)} for key in draw(keys)]}
    return node("DataOperations", params)


@st.composite
def texts(draw: st.DrawFn) -> dict[str, Any]:
    scripts = ("<{env.first}>", "{env.first}{env.second.k}", "{{ {env.first} | upper }}")
    params = {"method": draw(st.sampled_from(["split", "merge"])), "split_ref": "env.first"}
    params |= {"script": draw(st.sampled_from(scripts)), "delimiters": draw(st.lists(TEXTS, min_size=1, max_size=3))}
    return node("StringTransform", params)


@st.composite
def assignments(draw: st.DrawFn) -> dict[str, Any]:
    changes: list[dict[str, Any]] = []
    for operator in draw(st.lists(st.sampled_from(get_args(Operator)), min_size=1, max_size=2)):
        parameter = "env.first" if operator in BY_REFERENCE else draw(LITERALS | st.just("{env.first}"))
        changes.append({"variable": "env.second", "operator": operator, "parameter": parameter})
    return node("VariableAssigner", {"variables": changes})


@st.composite
def switches(draw: st.DrawFn) -> dict[str, Any]:
    operator, literal = draw(st.sampled_from(sorted(OPERATORS))), draw(LITERALS)
    items = [{"cpn_id": name, "operator": operator, "value": literal} for name in ("env.first", "env.second")]
    case = {"logical_operator": draw(st.sampled_from(["and", "or", "", None])), "items": items, "to": ["the_request"]}
    return node("Switch", {"conditions": [case], "end_cpn_ids": ["the_request"]})


NODES = st.one_of(list_operations(), data_operations(), texts(), assignments(), switches())
REQUESTS = st.sampled_from([("get", "json"), ("post", "json"), ("put", "formdata")])
JINJA_FILTERS = st.sampled_from(sorted(ALL_FILTERS.keys() - {"random"}))


class EchoServer(HttpServer):
    """Answers each request with its method, path and body."""

    def _route(self, request: Received) -> Route:
        return Route(request.path, body=json.dumps([request.method, request.path, request.body.decode()]))


@contextmanager
def crashes() -> Generator[list[logging.LogRecord]]:
    """Collect the exceptions of nodes that are not errors of the project's own."""
    records: list[logging.LogRecord] = []
    logger, handler = logging.getLogger("ragflow_lg"), logging.Handler()
    handler.emit = lambda record: records.append(record) if record.exc_info else None
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def type_of(value: Any) -> str:
    kinds = ((bool, "boolean"), (str, "string"), (list, "array<object>"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "number")


def build(first: Any, second: Any, operation: dict[str, Any], request: tuple[str, str], jinja: str) -> dict[str, Any]:
    arguments = [{"key": "first", "ref": "env.first"}, {"key": "second", "value": "{env.second}"}]
    arguments += [{"key": "gone", "ref": "the_operation@result.none"}, {"key": "result", "ref": "the_operation@result"}]
    method, datatype = request
    params = {"url": f"http://{HOST}/p/{{env.second}}/end?z={{env.first}}", "method": method, "datatype": datatype}
    handled = {"exception_method": "comment", "exception_default_value": "failed"}
    message = f"{{the_operation@result}}|{{the_request@result}}|{{{{ {{env.first}} | {jinja} }}}}"
    operation = {**operation, "downstream": ["the_request"]}
    operation["obj"]["params"] |= handled
    return canvas(
        {
            "the_operation": operation,
            "the_request": node("Invoke", {**params, "variables": arguments, **handled}, ["json"]),
            "json": node("Message", {"content": ["{{ {env.first} | tojson }}"]}, ["shown"]),
            "shown": node("Message", {"content": [message]}),
        },
        variables={
            name: {"name": name, "type": type_of(value), "value": value}
            for name, value in (("first", first), ("second", second))
        },
    )


async def play(document: dict[str, Any]) -> tuple[Any, list[Received]]:
    """Play a turn, check what it shows and stores, and return the value of ``env.first`` and the requests."""
    compiled = compile_canvas(document, CATALOG)
    async with EchoServer().running() as server, store_opener("memory://")() as store:
        client = GuardedHttpClient(HttpSettings(allow=(HOST,)), resolve=server.resolve)
        runner = Runner(compiled, fake_services(http=client), store=store)
        run = runner.start("s", {"query": "q"})
        with crashes() as crashed:
            frames = [{"event": event.event, **event.data()} async for event in run]
        state = await runner.state("s")
        await client.aclose()
    assert [record.getMessage() for record in crashed] == []
    assert run.status == "succeeded", run.error
    assert find_shown_problems(frames, state, compiled.plan) == []
    for part in (state["outputs"], state["globals"]):
        assert json.loads(json.dumps(part, allow_nan=False)) == part
    assert json.loads(state["outputs"]["json"]["content"]) == state["globals"]["env.first"]
    return state["globals"]["env.first"], server.received


@given(VALUES, VALUES, NODES, REQUESTS, JINJA_FILTERS)
def test_values_stay_what_and_where_they_are(
    first: Any, second: Any, operation: dict[str, Any], request: tuple[str, str], jinja: str
) -> None:
    value, received = asyncio.run(play(build(first, second, operation, request, jinja)))
    known = {"first", "second", "gone", "result"}
    for sent in received:
        body = sent.body.decode()
        for text in (sent.path, unquote(sent.path), body, unquote(body)):
            assert [name for name in NAMES if name in text] == []
        query = parse_qsl(sent.path.partition("?")[2], keep_blank_values=True, errors="surrogatepass")
        assert {key for key, _ in query} <= {"z", *(known if request[0] == "get" else ())}
        if "%" not in to_text(value):
            assert ("z", to_text(value)) in query
        if request == ("post", "json"):
            assert json.loads(body).keys() == known
        elif request[1] == "formdata":
            assert {key for key, _ in parse_qsl(body, keep_blank_values=True)} <= known
