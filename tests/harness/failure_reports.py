"""Reports of failed tests, made while no garbage is collected.

To show a failed test, pytest parses its file. If the collector runs meanwhile, and a finaliser of what it frees raises
an error, the traceback of that error is parsed within the first parsing. Python 3.11 then refuses both ("AST
constructor recursion depth mismatch"), and the error in the report ends the run of all tests.
"""

import gc
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Keep the collector off while a report is made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()
