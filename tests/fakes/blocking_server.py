"""The command ``ragflow-lg``, but Invoke blocks the event loop: ``python -m tests.fakes.blocking_server serve``."""

import time
from typing import Any

from msgspec.structs import force_setattr

from ragflow_lg.components.invoke import invoke
from ragflow_lg.server.cli.entry import main

BLOCKED_S = 1.0


async def _block(ctx: Any, params: Any) -> Any:
    time.sleep(BLOCKED_S)
    return invoke.outputs()


if __name__ == "__main__":
    force_setattr(invoke, "run", _block)
    main()
