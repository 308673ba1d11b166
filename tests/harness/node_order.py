"""Comparing the order of node events: as strict as a recording allows.

RAGFlow works in batches: all ``node_started`` of a batch, then each ``node_finished``. Nodes of one batch are
free among themselves, unless one leads to the other; a batch ends before the next begins.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from ragflow_lg.component.plan import Plan

Event = tuple[str, int]
"""``+id``, ``-id`` or ``!id``, and how often it came before."""


def order_problem(expected: Sequence[str], found: Sequence[str], plan: Plan) -> str:
    """Say what is wrong with the order, or give ``""``."""
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if missing or extra:
        return f"node events {' '.join(found)}, expected {' '.join(expected)}"
    place = {event: index for index, event in enumerate(_counted(found))}
    for before, after in _must_follow(_batches(_counted(expected)), plan):
        if place[before] > place[after]:
            return f"{before[0]} comes after {after[0]} in {' '.join(found)}, expected {' '.join(expected)}"
    return ""


def _counted(nodes: Sequence[str]) -> list[Event]:
    seen: Counter[str] = Counter()
    events: list[Event] = []
    for node in nodes:
        events.append((node, seen[node]))
        seen[node] += 1
    return events


def _batches(events: Sequence[Event]) -> list[list[Event]]:
    """A batch is a run of starts with the ends up to the next start."""
    batches: list[list[Event]] = []
    previous = "-"
    for event in events:
        if event[0][0] == "+" and previous != "+":
            batches.append([])
        batches[-1].append(event)
        previous = event[0][0]
    return batches


def _must_follow(batches: Sequence[Sequence[Event]], plan: Plan) -> Iterator[tuple[Event, Event]]:
    for earlier, later in itertools.pairwise(batches):
        yield from itertools.product(earlier, later)
    reaches = _reached(plan)
    for batch in batches:
        for before, after in itertools.combinations(batch, 2):
            one, other = before[0][1:], after[0][1:]
            is_start_and_end = one == other
            leads_on = other in reaches.get(one, ()) and (before[0][0] == "+") == (after[0][0] == "+")
            if is_start_and_end or leads_on:
                yield before, after


def _reached(plan: Plan) -> dict[str, set[str]]:
    """For each node those that it leads to."""
    reached: dict[str, set[str]] = {}
    for start in plan.nodes:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for target in plan.nodes[waiting.pop()].targets:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        reached[start] = found
    return reached
