"""Operating web pages in a browser: actions, what a page shows, and the Protocols of a browser and of their source."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

ActionKind: TypeAlias = Literal[
    "open", "click", "fill", "select", "press", "upload", "scroll", "back", "read", "screenshot"
]


class BrowserFile(Struct, frozen=True):
    """A file that a page offered for download, or one that may be uploaded."""

    name: str
    media_type: str
    content: bytes


class BrowserAction(Struct, frozen=True):
    """One action on the current page."""

    kind: ActionKind
    address: str = ""
    """The address to open."""
    ref: str = ""
    """The element, by its reference in the last `PageView`."""
    text: str = ""
    """The text to fill in, the option to select, or the key to press."""
    is_submitted: bool = False
    """Whether the Enter key is pressed after the text is filled in."""
    direction: Literal["up", "down"] = "down"
    """Where to scroll."""
    offset: int = 0
    """The first character of the page's description to return."""
    file: BrowserFile | None = None
    """The file to upload."""


class PageView(Struct, frozen=True):
    """What the current page shows after an action. Everything in it is chosen by the page."""

    address: str
    title: str
    text: str
    """A part of the page's description, whose elements have references."""
    offset: int = 0
    """Where this part begins."""
    size: int = 0
    """The length of the whole description."""
    notes: tuple[str, ...] = ()
    """What happened besides: dialogs, windows, downloads, refused requests."""
    downloads: tuple[BrowserFile, ...] = ()
    """The downloads that have been completed since the last action."""
    screenshot: bytes = b""
    """The visible part as a JPEG image, or ``b""`` if there is none."""


class Browser(Protocol):
    """One open browser with its own profile."""

    async def act(self, action: BrowserAction) -> PageView:
        """Perform an action and return what the page shows then.

        Raises:
            ServiceError: if it is impossible. The browser can still be used.
        """
        ...


class Browsers(Protocol):
    """Opens browsers. A browser can reach only the addresses that the settings allow."""

    def check(self) -> None:
        """Check that a browser can be opened, as far as that is known without opening one.

        Raises:
            SettingsError: if not, with the reason.
        """
        ...

    def open(self) -> AbstractAsyncContextManager[Browser]:
        """Return a context with a new browser, which is closed at the end, together with everything it has stored.

        Raises:
            ServiceError: if it does not start.
            SettingsError: if there is no browser.
        """
        ...
