"""One Chromium for all tests of the page in a process. Starting it takes longer than most of what they do in it."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.server.page.visits import start_browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    """Yield the browser. A test opens contexts of its own in it, which share nothing, and closes them."""
    async with start_browser() as browser:
        yield browser


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests with the browser in its event loop."""
    for item in items:
        if isinstance(item, pytest.Function) and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
