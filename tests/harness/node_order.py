"""Comparison of the order of node events, as strict as a recording allows.

RAGFlow works in batches: all ``node_started`` of a batch, then each ``node_finished``. A batch ends before the next
starts. Nodes of one batch have no order, unless one leads to the other.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from ragflow_lg.component.plan import Plan

Event = tuple[str, int]
"""``+id``, ``-id`` or ``!id``, and the number of equal events before."""


def find_order_problem(expected: Sequence[str], actual: Sequence[str], plan: Plan) -> str:
    """Return a description of the first problem with the order, or ``""``."""
    missing, extra = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)
    if missing or extra:
        return f"node events {' '.join(actual)}, expected {' '.join(expected)}"
    position = {event: index for index, event in enumerate(_number_events(actual))}
    for before, after in _ordered_pairs(_batches(_number_events(expected)), plan):
        if position[before] > position[after]:
            return f"{before[0]} comes after {after[0]} in {' '.join(actual)}, expected {' '.join(expected)}"
    return ""


def _number_events(nodes: Sequence[str]) -> list[Event]:
    seen: Counter[str] = Counter()
    events: list[Event] = []
    for node in nodes:
        events.append((node, seen[node]))
        seen[node] += 1
    return events


def _batches(events: Sequence[Event]) -> list[list[Event]]:
    """Split events into batches: a series of starts, and the ends up to the next start."""
    batches: list[list[Event]] = []
    previous = "-"
    for event in events:
        if event[0][0] == "+" and previous != "+":
            batches.append([])
        batches[-1].append(event)
        previous = event[0][0]
    return batches


def _ordered_pairs(batches: Sequence[Sequence[Event]], plan: Plan) -> Iterator[tuple[Event, Event]]:
    for earlier, later in itertools.pairwise(batches):
        yield from itertools.product(earlier, later)
    descendants = _descendants(plan)
    for batch in batches:
        for before, after in itertools.combinations(batch, 2):
            one, other = before[0][1:], after[0][1:]
            is_start_and_end = one == other
            leads_on = other in descendants.get(one, ()) and (before[0][0] == "+") == (after[0][0] == "+")
            if is_start_and_end or leads_on:
                yield before, after


def _descendants(plan: Plan) -> dict[str, set[str]]:
    """Return the nodes that each node leads to."""
    descendants: dict[str, set[str]] = {}
    for start in plan.nodes:
        below: set[str] = set()
        queue = [start]
        while queue:
            for target in plan.nodes[queue.pop()].targets:
                if target not in below:
                    below.add(target)
                    queue.append(target)
        descendants[start] = below
    return descendants
