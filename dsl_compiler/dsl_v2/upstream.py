"""``upstream`` of every component, which DSL v2 leaves out because it follows from ``downstream``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_upstream(downstream: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the ids that lead to each id, in document order.

    >>> find_upstream({"a": ["c"], "b": ["c"], "c": []})
    {'a': [], 'b': [], 'c': ['a', 'b']}
    """
    upstream: dict[str, list[str]] = {id_: [] for id_ in downstream}
    for source, targets in downstream.items():
        for target in dict.fromkeys(targets):
            if target in upstream:
                upstream[target].append(source)
    return upstream
