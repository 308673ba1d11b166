"""Lays out boxes of one level in ranks, using Sugiyama's method.

Positions are *along* the direction of the flow and *across* it, in pixels. A box's rank is determined by the longest
path to it, and its order in the rank by the mean position of its neighbours. Boxes then stand as straight as the order
allows. An edge that spans several ranks has a slot in each of them, so it does not cross any boxes.

Libraries with such a layout (Grandalf, Graphviz) either have no boxes inside boxes or need a program of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from msgspec import Struct

SWEEPS = 8
"""Number of passes that improve the order and the positions."""

MAX_BENDS = 5_000
"""Maximum number of slots for long edges. If a drawing needs more, long edges are drawn straight."""

SPACE, BEND_SPACE = 32.0, 14.0
"""Distance between two boxes of a rank, and the room for a passing edge."""

Pair = tuple[int, int]


class Size(Struct, frozen=True):
    """The size of a box in pixels."""

    along: float
    across: float


class Point(Struct, frozen=True):
    """A position in pixels."""

    along: float
    across: float


class Layers(Struct, frozen=True):
    """The positions of boxes and edges on one level."""

    corners: Sequence[Point]
    """The corner of each box that is nearest to the origin."""
    bends: Mapping[Pair, Sequence[tuple[Point, Point]]]
    """Where an edge enters and leaves each rank that it passes."""
    back: Sequence[Pair]
    """Edges that run against the direction of the flow."""
    size: Size


def lay_out(sizes: Sequence[Size], edges: Sequence[Pair], gap: float) -> Layers:
    """Return the layout of boxes, given by index, with ``gap`` pixels between two ranks."""
    if not sizes:
        return Layers([], {}, [], Size(0.0, 0.0))
    back = _back_edges(len(sizes), edges)
    forward = [edge for edge in edges if edge not in back and edge[0] != edge[1]]
    ranks = _ranks(len(sizes), forward)
    grid = _Grid(sizes, forward, ranks)
    grid.order()
    middles = grid.middles()
    lengths = [0.0] * (max(ranks, default=0) + 1)
    for size, rank in zip(sizes, ranks, strict=True):
        lengths[rank] = max(lengths[rank], size.along)
    starts = [0.0, *accumulate(length + gap for length in lengths)][: len(lengths)]
    edges_across = [(middles[i] - grid.heights[i] / 2, middles[i] + grid.heights[i] / 2) for i in range(len(middles))]
    top = min((low for low, _ in edges_across), default=0.0)
    bottom = max((high for _, high in edges_across), default=0.0)
    corners = [
        Point(starts[rank], middles[index] - size.across / 2 - top)
        for index, (size, rank) in enumerate(zip(sizes, ranks, strict=True))
    ]
    bends = {
        edge: [_bend(grid.ranks[s], middles[s] - top, starts, lengths) for s in slots]
        for edge, slots in grid.bends.items()
    }
    total = Size(starts[-1] + lengths[-1], bottom - top)
    return Layers(corners, bends, [edge for edge in edges if edge in back], total)


def _bend(rank: int, across: float, starts: Sequence[float], lengths: Sequence[float]) -> tuple[Point, Point]:
    return Point(starts[rank], across), Point(starts[rank] + lengths[rank], across)


def _back_edges(count: int, edges: Sequence[Pair]) -> set[Pair]:
    """Return the edges to boxes that a depth-first search is still visiting."""
    successors: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        successors[source].append(target)
    is_open: dict[int, bool] = {}
    back: set[Pair] = set()
    for root in range(count):
        if root in is_open:
            continue
        is_open[root] = True
        stack = [(root, iter(successors[root]))]
        while stack:
            box, following = stack[-1]
            target = next(following, None)
            if target is None:
                is_open[box] = False
                stack.pop()
            elif target not in is_open:
                is_open[target] = True
                stack.append((target, iter(successors[target])))
            elif is_open[target]:
                back.add((box, target))
    return back


def _ranks(count: int, edges: Sequence[Pair]) -> list[int]:
    """Return each box's rank, which is one after that of its last predecessor."""
    waiting = [0] * count
    following: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        waiting[target] += 1
        following[source].append(target)
    ranks = [0] * count
    ready = [box for box in range(count) if not waiting[box]]
    for box in ready:  # grows during the loop
        for target in following[box]:
            ranks[target] = max(ranks[target], ranks[box] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ranks


class _Grid:
    """Slots in ranks, by number: first the boxes, then the bends of long edges."""

    def __init__(self, sizes: Sequence[Size], edges: Iterable[Pair], ranks: Sequence[int]) -> None:
        spans = {edge: range(ranks[edge[0]] + 1, ranks[edge[1]]) for edge in edges}
        has_bends = sum(map(len, spans.values())) <= MAX_BENDS
        self.ranks = list(ranks)
        self.heights = [size.across for size in sizes]
        self.bends: dict[Pair, list[int]] = {}
        self.before: list[list[int]] = [[] for _ in sizes]
        self.after: list[list[int]] = [[] for _ in sizes]
        for edge, span in spans.items():
            slots = [self._add(crossed) for crossed in span] if has_bends else []
            if slots:
                self.bends[edge] = slots
            for left, right in pairwise([edge[0], *slots, edge[1]]):
                self.after[left].append(right)
                self.before[right].append(left)
        self.members: list[list[int]] = [[] for _ in range(max(self.ranks, default=0) + 1)]
        for slot, rank in enumerate(self.ranks):
            self.members[rank].append(slot)
        self._box_count = len(sizes)

    def _add(self, rank: int) -> int:
        self.ranks.append(rank)
        self.heights.append(0.0)
        self.before.append([])
        self.after.append([])
        return len(self.ranks) - 1

    def order(self) -> None:
        """Order each rank by the mean position of the neighbours, forward and backward in turn."""
        position = [0.0] * len(self.ranks)
        for sweep in range(SWEEPS):
            is_forward = sweep % 2 == 0
            neighbours = self.before if is_forward else self.after
            for members in self.members if is_forward else reversed(self.members):
                mean = {p: _mean([position[n] for n in neighbours[p]], position[p]) for p in members}
                if sweep:
                    members.sort(key=mean.__getitem__)
                else:  # initially in the canvas's order
                    members.sort(key=lambda p: (mean[p], p))
                for index, slot in enumerate(members):
                    position[slot] = index - (len(members) - 1) / 2

    def middles(self) -> list[float]:
        """Return every slot's middle across the flow, as close to its neighbours as order and space allow."""
        middles = [0.0] * len(self.ranks)
        for sweep in range(SWEEPS):
            is_forward = sweep % 2 == 0
            for members in self.members if is_forward else reversed(self.members):
                near = self.before if is_forward else self.after
                targets = [_mean([middles[n] for n in near[p]], middles[p]) for p in members]
                for slot, middle in zip(members, _spread(targets, [self._room(p) for p in members]), strict=True):
                    middles[slot] = middle
        return middles

    def _room(self, slot: int) -> float:
        return self.heights[slot] + SPACE if slot < self._box_count else BEND_SPACE * 2


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _spread(targets: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the positions closest to the targets (least squares) that preserve the order and do not overlap."""
    offsets = [0.0]
    for above, below in pairwise(heights):
        offsets.append(offsets[-1] + (above + below) / 2)
    blocks: list[list[float]] = []  # [sum, count]: touching neighbours move together
    for target, offset in zip(targets, offsets, strict=True):
        blocks.append([target - offset, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    bases = [total / count for total, count in blocks for _ in range(int(count))]
    return [base + offset for base, offset in zip(bases, offsets, strict=True)]
