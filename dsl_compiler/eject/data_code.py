"""ListOperations and DataOperations, written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragflow_lg.dsl_compiler.eject.node_writer import NodeWriter
from ragflow_lg.dsl_compiler.eject.python_literals import Code, literal

_PICKS: Mapping[str, Callable[[int], str]] = {
    "nth": lambda n: f"items[{n - 1}:{n}]" if n > 0 else f"items[{n}:][:1] if len(items) >= {-n} else []",
    "head": lambda n: f"items[:{max(n, 0)}]",
    "tail": lambda n: f"items[-{n}:]" if n > 0 else "items[:0]",
}


def write_list(writer: NodeWriter) -> Code | None:
    """Write a ListOperations that picks items by their position, sorts them or drops duplicates."""
    result = _list_result(writer)
    if result is None:
        return None
    params = writer.params
    writer.module.use_public("as_list")
    problem = "The input of List Operations should be an array."
    items = writer.call("as_list", writer.value(params.query), problem)
    writer.lines.append(f"items = {items}")
    writer.lines.append(f"result = {result}")
    first, last = Code("result[0] if result else None"), Code("result[-1] if result else None")
    return writer.outputs({"result": Code("result"), "first": first, "last": last})


def _list_result(writer: NodeWriter) -> str | None:
    params = writer.params
    if params.operations == "sort":
        writer.module.use_public("sort_items")
        return f"sort_items(items, {literal(params.sort_by)}, {params.sort_method == 'desc'})"
    if params.operations == "drop_duplicates":
        writer.module.use_public("drop_duplicates")
        return "drop_duplicates(items)"
    if params.operations not in _PICKS or params.strict or (params.operations == "nth" and params.n == 0):
        return None
    return _PICKS[params.operations](params.n)


def write_maps(writer: NodeWriter) -> Code | None:
    """Write a DataOperations that selects, removes or combines keys."""
    params = writer.params
    results = {
        "select_keys": f"{{key: entry[key] for key in entry if key in {_keys(params.select_keys)}}}",
        "remove_keys": f"{{key: entry[key] for key in entry if key not in {_keys(params.remove_keys)}}}",
    }
    if params.operations not in (*results, "combine"):
        return None
    writer.module.use_public("maps_of")
    maps = writer.call("maps_of", *map(writer.value, params.query))
    if params.operations == "combine":
        writer.module.use_public("combine_maps")
        return writer.outputs({"result": Code(f"combine_maps({maps})")})
    writer.lines.append(f"maps = {maps}")
    return writer.outputs({"result": Code(f"[{results[params.operations]} for entry in maps]")})


def _keys(names: Sequence[str]) -> str:
    return literal(list(dict.fromkeys(names)), 1)
