"""Worker tasks: functions whose time and memory an input can blow up, so they run where they can be killed.

A function becomes a task with `worker_task`. Calling the task runs it in this thread;
`ragflow_lg.services.workers.Workers.run` runs it in a worker process, unless its arguments are small::

    @worker_task("Splitting the text", seconds=5)
    def split(text: str, delimiters: list[str]) -> list[str]: ...

    parts = await services.workers.run(split, text, delimiters)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

SMALL_SIZE = 16_384
"""Default size of arguments, in characters, bytes and entries, up to which a task runs in the event loop."""


class WorkerTask(Generic[P, T]):
    """A function with its limits. Its module-level name must be the function's, because workers import it by name.

    The arguments can be anything that pickle supports. The result of a worker has passed through
    `ragflow_lg.base.values.to_json`, so tuples arrive as lists, and its size is limited; only bytes arrive unchanged.
    """

    def __init__(
        self, function: Callable[P, T], activity: str, seconds: float, small_size: int, *, is_long: bool = False
    ) -> None:
        self.function = function
        self.activity = activity
        """What the task does, as the start of an error message: ``Reading the file``."""
        self.seconds = seconds
        """Maximum duration, which is also the maximum processor time."""
        self.small_size = small_size
        self.is_long = is_long
        """Whether users may let it run for long, so that it takes no process from other tasks."""
        self.module = function.__module__
        self.name = function.__qualname__
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in this thread."""
        return self.function(*args, **kwargs)

    def is_small(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Return whether the arguments are so small that the task may run in the event loop."""
        return self.small_size > 0 and measure((args, kwargs), self.small_size) <= self.small_size


def worker_task(
    activity: str, *, seconds: float = 10.0, small_size: int = SMALL_SIZE
) -> Callable[[Callable[P, T]], WorkerTask[P, T]]:
    """Return a decorator that turns a module-level function into a task.

    ``small_size`` is the size of arguments up to which the task runs in the event loop, which should take less than a
    few milliseconds; 0 means that it never does.
    """

    def decorate(function: Callable[P, T]) -> WorkerTask[P, T]:
        return WorkerTask(function, activity, seconds, small_size)

    return decorate


def measure(value: Any, limit: int) -> int:
    """Return the number of characters, bytes and entries of a value, or some number above ``limit`` if it is larger."""
    size = 0
    pending: list[Any] = [value]
    while pending and size <= limit:
        current = pending.pop()
        size += 1
        if isinstance(current, str | bytes | bytearray):
            size += len(current)
        elif isinstance(current, Mapping):
            entries = cast("Mapping[Any, Any]", current)
            size += len(entries)
            if size <= limit:
                pending.extend(entries.keys())
                pending.extend(entries.values())
        elif isinstance(current, list | tuple | set | frozenset):
            items = cast("list[Any]", current)
            size += len(items)
            if size <= limit:
                pending.extend(items)
    return size
