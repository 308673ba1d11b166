"""A text that grows by many pieces."""

from __future__ import annotations


class GrowingText:
    """A text that is joined only when it is read: appending to a string of megabytes would copy it each time."""

    def __init__(self, text: str = "") -> None:
        """Initialize with the beginning of the text."""
        self._pieces = [text]
        self._length = len(text)

    def __len__(self) -> int:
        return self._length

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def append(self, text: str) -> None:
        """Add a piece."""
        self._pieces.append(text)
        self._length += len(text)
