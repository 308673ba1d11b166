"""Canvases whose components have much to compute."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.canvas import canvas, node, text
from tests.harness.noisy.attack import Attack, by_canvas

MB = 1024 * 1024
END = node("Message", {"content": ["done"]})


def _with(components: Mapping[str, Any], **variables: Any) -> dict[str, Any]:
    """Return a canvas with a last Message ``m`` and environment variables."""
    described = {name: {"name": name, "type": "object", "value": value} for name, value in variables.items()}
    names = {f"env.{name}": value for name, value in variables.items()}
    return canvas({**components, "m": END}, variables=described, globals=names)


def _one(name: str, params: Mapping[str, Any], **variables: Any) -> dict[str, Any]:
    return _with({"x": node(name, dict(params), ["m"])}, **variables)


def _split(delimiters: Sequence[str], value: str = "") -> dict[str, Any]:
    reference = "env.t" if value else "sys.query"
    return _one("StringTransform", {"method": "split", "split_ref": reference, "delimiters": [*delimiters]}, t=value)


def _switch(items: int, value: Any, operator: str = "contains", other: str = "b") -> dict[str, Any]:
    tests = [{"cpn_id": "env.v", "operator": operator, "value": other} for _ in range(items)]
    condition = {"items": tests, "to": ["m"], "logical_operator": "or"}
    return _one("Switch", {"conditions": [condition], "end_cpn_ids": ["m"]}, v=value)


def _cases(count: int) -> dict[str, Any]:
    item = {"cpn_id": "env.v", "operator": "contains", "value": "b" * 20}
    cases = [{"items": [item], "to": ["m"], "logical_operator": "and"} for _ in range(count)]
    return _one("Switch", {"conditions": cases, "end_cpn_ids": ["m"]}, v="a" * 500_000)


def _assign(rows: Sequence[Sequence[Any]], **variables: Any) -> dict[str, Any]:
    changes = [{"variable": row[0], "operator": row[1], "parameter": row[2]} for row in rows]
    return _one("VariableAssigner", {"variables": changes}, **variables)


def _growth(change: Mapping[str, Any], **variables: Any) -> dict[str, Any]:
    """Return a Loop without end that changes a variable in each round."""
    loop = node("Loop", {"loop_variables": [], "maximum_loop_count": 100_000}, ["m"])
    body = node("VariableAssigner", {"variables": [dict(change)]}, parent_id="loop")
    item = node("LoopItem", {}, ["x"], parent_id="loop")
    return _with({"loop": loop, "item": item, "x": body}, **variables)


def _data(operation: str, query: str, value: Any, **params: Any) -> dict[str, Any]:
    return _one("DataOperations", {"query": [query], "operations": operation, **params}, v=value)


def _list(operation: str, value: Any, **params: Any) -> dict[str, Any]:
    return _one("ListOperations", {"query": "env.v", "operations": operation, **params}, v=value)


def _paths() -> dict[str, Any]:
    big = '{"a": {"b": 1}, "c": "' + "x" * 4_500_000 + '"}'
    references = "".join("{f@result.a.b}" for _ in range(3000))
    first = node("StringTransform", {"method": "merge", "script": "{env.t}"}, ["g"])
    return _with({"f": first, "g": text(["m"], references)}, t=big)


def _merge(times: int, size: int) -> dict[str, Any]:
    return _with({"g": text(["m"], "{env.t}" * times)}, t="a" * size)


def _shown(times: int, size: int) -> dict[str, Any]:
    components = {"x": node("Message", {"content": ["{env.t}" * times]})}
    return canvas(components, variables={"t": {"name": "t", "type": "string", "value": "a" * size}}, globals={})


def _aggregate() -> dict[str, Any]:
    groups = [
        {"group_name": f"g{n}", "type": "string", "variables": [{"value": "env.t"} for _ in range(200)]}
        for n in range(500)
    ]
    return _one("VariableAggregator", {"groups": groups}, t="")


def _literals(source: str) -> dict[str, Any]:
    return _data("literal_eval", "env.v", {"a": [source] * 20})


_ROWS = [{"a": n, "b": "x"} for n in range(20_000)]
_WORDS = [str(n * 7919 % 100_000) for n in range(100_000)]

ATTACKS: list[Attack] = [
    by_canvas(
        "split-delimiters",
        "2 delimiters, one of 200,000 letters",
        lambda: _split(["a" * 200_000 + "b", "c"]),
        "a" * 80_000,
    ),
    by_canvas(
        "split-letters", "a text of 1 MB, and a long delimiter", lambda: _split(["a" * 200_000 + "b", "c"], "a" * MB)
    ),
    by_canvas("split-many", "50,000 delimiters", lambda: _split([f"{n:05}x" for n in range(50_000)], "0" * MB)),
    by_canvas("split-each", "a text of 1 MB, split at each letter", lambda: _split(["a"], "a" * MB)),
    by_canvas("contains", "a list of 100,000, and a part of 1 MB", lambda: _switch(1, ["a"] * 100_000, other="b" * MB)),
    by_canvas("switch-items", "20,000 tests of a text of 2 MB", lambda: _switch(20_000, "a" * (2 * MB))),
    by_canvas("switch-cases", "5,000 cases", lambda: _cases(5000)),
    by_canvas("switch-equal", "5,000 comparisons of a large list", lambda: _switch(5000, _WORDS, "=", "{env.v}")),
    by_canvas(
        "assign-many",
        "20,000 changes of a long list",
        lambda: _assign([["env.l", "append", "env.t"]] * 20_000, l=["x"] * 190_000, t="a"),
    ),
    by_canvas(
        "assign-text",
        "2,000 times one text of 4 MB",
        lambda: _assign([["env.l", "append", "env.t"]] * 2000, l=[], t="a" * (4 * MB)),
    ),
    by_canvas(
        "assign-extend",
        "a list that doubles 60 times",
        lambda: _assign([["env.l", "extend", "env.l"]] * 60, l=["x"] * 10),
    ),
    by_canvas(
        "assign-nest",
        "a list that contains itself 60 times",
        lambda: _assign([["env.l", "append", "env.l"]] * 60, l=["x"] * 10),
    ),
    by_canvas(
        "assign-number", "a number that grows 5,000 times", lambda: _assign([["env.n", "*=", "env.n"]] * 5000, n=99999)
    ),
    by_canvas(
        "assign-text-double",
        "a text that doubles 60 times",
        lambda: _assign([["env.t", "set", "{env.t}{env.t}"]] * 60, t="xyz"),
    ),
    by_canvas(
        "growth-loop",
        "a list that doubles in each round",
        lambda: _growth({"variable": "env.l", "operator": "extend", "parameter": "env.l"}, l=["x"]),
    ),
    by_canvas(
        "growth-text",
        "a text that doubles in each round",
        lambda: _growth({"variable": "env.t", "operator": "set", "parameter": "{env.t}{env.t}"}, t="xyz"),
    ),
    by_canvas(
        "update-maps",
        "5,000 keys for 20,000 maps",
        lambda: _data(
            "append_or_update", "env.v", [{}] * 20_000, updates=[{"key": f"k{n}", "value": "x"} for n in range(5000)]
        ),
    ),
    by_canvas(
        "select-keys",
        "20,000 keys of 20,000 maps",
        lambda: _data("select_keys", "env.v", _ROWS, select_keys=[f"k{n}" for n in range(20_000)]),
    ),
    by_canvas(
        "rename-keys",
        "5,000 renamed keys of 20,000 maps",
        lambda: _data(
            "rename_keys",
            "env.v",
            _ROWS,
            rename_keys=[{"old_key": f"k{n}", "new_key": f"k{n + 1}"} for n in range(5000)],
        ),
    ),
    by_canvas(
        "filter-maps",
        "2,000 rules for 20,000 maps",
        lambda: _data(
            "filter_values",
            "env.v",
            _ROWS,
            filter_values=[{"key": "b", "operator": "contains", "value": "x"} for _ in range(2000)],
        ),
    ),
    by_canvas(
        "combine-maps",
        "20,000 maps combined",
        lambda: _data("combine", "env.v", [{f"k{n}": "x" * 50, "same": [n]} for n in range(20_000)]),
    ),
    by_canvas("literal-f", "Python literals: f-strings of 90 KB", lambda: _literals("f'" + "{1}" * 30_000 + "'")),
    by_canvas("literal-deep", "Python literals: nested lists", lambda: _literals("[" * 45_000 + "]" * 45_000)),
    by_canvas("literal-signs", "Python literals: 90,000 signs", lambda: _literals("-" * 90_000 + "1")),
    by_canvas("literal-number", "Python literals: a number of 90,000 digits", lambda: _literals("9" * 90_000)),
    by_canvas("sort-list", "a list of 100,000, sorted", lambda: _list("sort", _WORDS)),
    by_canvas(
        "sort-keys", "maps sorted by 2,000 keys", lambda: _list("sort", _ROWS, sort_by=[f"k{n}" for n in range(2000)])
    ),
    by_canvas(
        "unique-list",
        "duplicates among 20,000 maps",
        lambda: _list("drop_duplicates", [{"a": [n % 9]} for n in range(20_000)]),
    ),
    by_canvas(
        "filter-list",
        "a filter for 100,000 items",
        lambda: _list("filter", ["a" * 40] * 100_000, filter={"operator": "contains", "value": "b" * 100_000}),
    ),
    by_canvas("json-paths", "3,000 references into a JSON text of 4.5 MB", _paths),
    by_canvas("merge-text", "2,000 references to a text of 1 MB", lambda: _merge(2000, MB)),
    by_canvas("message-text", "2,000 references to 4 MB in a Message", lambda: _shown(2000, 4 * MB)),
    by_canvas("references", "200,000 references in a template", lambda: _merge(200_000, 1)),
    by_canvas("aggregate", "100,000 candidates of an aggregator", _aggregate),
]
