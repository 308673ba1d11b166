"""Vectors of items: 32-bit numbers as bytes, of length 1, so that their product is the cosine of the angle."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from math import hypot
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.extras import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUMBER_BYTES = 4

MAX_CACHED_BYTES = 64 * 1024**2
"""Maximum size of the vectors that a cache keeps."""


def pack_vector(vector: Sequence[float]) -> bytes:
    """Return the bytes of a vector of length 1 with the same direction.

    Raises:
        CheckpointError: if a number is not finite.
    """
    try:
        length = hypot(*vector)
        if length - length != 0:
            raise OverflowError("a number is infinite or not a number")
        return array("f", [number / (length or 1.0) for number in vector]).tobytes()
    except (OverflowError, TypeError) as error:
        raise CheckpointError(f"The embedding model returned an unusable vector: {error}.") from None


class VectorTable(NamedTuple):
    """The vectors of some items, which are named by numbers."""

    numbers: Sequence[int]
    matrix: NDArray[np.float32]

    def most_similar(self, wanted: bytes, count: int) -> list[tuple[int, float]]:
        """Return the numbers and cosines of the most similar vectors, best first."""
        import numpy as np

        scores = np.nan_to_num(self.matrix @ np.frombuffer(wanted, dtype=np.float32))
        best: list[int] = np.argsort(-scores, kind="stable")[:count].tolist()
        return [(self.numbers[index], float(scores[index])) for index in best]


def join_vectors(numbers: Sequence[int], vectors: Sequence[bytes], size: int) -> VectorTable:
    """Return a table of vectors with ``size`` bytes each.

    >>> table = join_vectors([7, 8], [pack_vector([0, 1]), pack_vector([3, 4])], 8)
    >>> [(number, round(score, 3)) for number, score in table.most_similar(pack_vector([0, 2]), 2)]
    [(7, 1.0), (8, 0.8)]
    """
    require("knowledge", "A search in memories")
    import numpy as np

    matrix = np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(vectors), size // NUMBER_BYTES)
    return VectorTable(numbers, matrix)


class VectorCache:
    """The tables that were used last, by place, as long as their version is current."""

    def __init__(self) -> None:
        self._tables: OrderedDict[Hashable, tuple[object, VectorTable]] = OrderedDict()

    def get(self, place: Hashable, version: object, read: Callable[[], VectorTable]) -> VectorTable:
        """Return the table of a place, read again if its version is another one."""
        known = self._tables.pop(place, None)
        table = known[1] if known is not None and known[0] == version else read()
        self._tables[place] = version, table
        while len(self._tables) > 1 and sum(t.matrix.nbytes for _, t in self._tables.values()) > MAX_CACHED_BYTES:
            self._tables.popitem(last=False)
        return table
