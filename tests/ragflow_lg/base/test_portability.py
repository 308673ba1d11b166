import asyncio
import os
import signal

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.portability import on_signal, require_posix, restore_interrupt


@pytest.mark.parametrize("has_handlers", [True, False])
async def test_a_signal_calls_the_action(has_handlers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    loop, called, old = asyncio.get_running_loop(), asyncio.Event(), signal.getsignal(signal.SIGINT)
    if not has_handlers:
        monkeypatch.setattr(loop, "add_signal_handler", refuse)
        monkeypatch.setattr(loop, "remove_signal_handler", refuse)
    try:
        on_signal(signal.SIGINT, called.set)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(called.wait(), 60)
        restore_interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, old)


async def test_other_threads_have_no_signals() -> None:
    async def listen() -> None:
        on_signal(signal.SIGINT, asyncio.Event().set)

    await asyncio.to_thread(lambda: asyncio.run(listen()))


def test_a_missing_feature_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_posix("This")
    monkeypatch.delattr(os, "fork")
    with pytest.raises(SettingsError, match="This needs Linux or macOS"):
        require_posix("This")
