"""The tools that a request offers, by the names that rules use for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

_NUMBER = re.compile(r"_\d+$")


def find_offered(name: str, offered: Iterable[str]) -> str:
    """Return the offered tool with a name: its own, with or without the number, or its component's, ignoring case.

    Any other name is returned unchanged, so that rules can also name tools that do not exist.

    >>> find_offered("ExeSQL", ["search_0", "execute_sql_1"]), find_offered("execute_sql", ["execute_sql_1"])
    ('execute_sql_1', 'execute_sql_1')
    >>> find_offered("search_0", ["search_0"]), find_offered("nothing", ["search_0"])
    ('search_0', 'nothing')
    """
    names = list(offered)
    if name in names:
        return name
    plain = name.casefold()
    for tool in names:
        if plain == _NUMBER.sub("", tool).casefold():
            return tool
    for tool in names:
        if plain == _component_of(tool).casefold():
            return tool
    return name


def names_of(offered: Iterable[str]) -> Iterator[str]:
    """Yield the names of the offered tools, and those of their components."""
    for tool in offered:
        yield tool
        if component := _component_of(tool):
            yield component


def _component_of(tool: str) -> str:
    return _components().get(_NUMBER.sub("", tool), "")


@cache
def _components() -> Mapping[str, str]:
    """Return the names of all components that models can call, by function."""
    from ragflow_lg.catalog import load_catalog

    return {spec.tool.function: spec.name for spec in load_catalog() if spec.tool is not None and spec.tool.function}
