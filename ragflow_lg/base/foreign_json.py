"""The one way to read JSON from outside: answers of servers, and reports of programs.

Bytes, entries and levels are counted before anything is built. A text that is large although it passes is parsed where
it can be killed::

    value = await services.workers.run(read_foreign_json, response.text, JsonLimits(MAX_BYTES))
"""

from __future__ import annotations

from ragflow_lg.base.errors import ComponentError, ForeignJsonError
from ragflow_lg.base.json_scanner import JsonLimits, parse_foreign_json
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.base.worker_tasks import worker_task

SMALL_BYTES = 64 * 1024
"""Size of the texts that are parsed in the event loop, which takes a few milliseconds at most."""


@worker_task("Reading JSON", small_size=SMALL_BYTES)
def read_foreign_json(text: str | bytes, limits: JsonLimits) -> JsonValue:
    """Return the value of a JSON text as plain JSON: NaN is null, and numbers of more than 64 bits are texts.

    Raises:
        ForeignJsonError: if it exceeds a limit or is not JSON. The message completes a sentence about it.
    """
    try:
        return to_json(parse_foreign_json(text, limits))
    except ComponentError as error:
        raise ForeignJsonError(f"cannot be used: {str(error).rstrip('.')}") from None
