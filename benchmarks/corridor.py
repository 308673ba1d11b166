"""Count what one streamed turn passes through: ``python -m benchmarks.corridor``.

The second request of an application in this process is measured, so that nothing is imported or compiled on the way.
Only functions of this repository count. A function carries a text if an argument, other than `self`, contains it.
The way in ends when `sys.query` has its value. The way out is that of one
piece of a model's answer in a second canvas, whose Message streams it, until its frame is handed to the server.

Tasks and calls are also counted for a third canvas, and for a small server that runs the same graph, written by hand,
with our saver (`benchmarks.server_apps`). There, the calls of Python functions in all packages count, in the thread of
the event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct
from starlette.types import Message

from benchmarks import canvases
from benchmarks.server_apps import by_hand, canvas, ours
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest

ROOT = Path(__file__).parent.parent
CANVAS = ROOT / "examples" / "customer_service_router.json"
COMPLETIONS = "/api/v1/agents/chat/completions"
QUESTION = "Where is my parcel?"
PIECE = "measured "
OnBody = Callable[[bytes], None]
QUIET_S = 0.1
"""Time before and after the measured piece, so that no other work falls into its window."""


class PassedCode:
    """The functions of this repository that a window of time enters."""

    def __init__(self, mark: str = "") -> None:
        self.calls = 0
        self.switches = 0
        self.functions: dict[CodeType, str] = {}
        self.carriers: set[CodeType] = set()
        self._mark = mark
        self._last_file = ""

    def note(self, frame: FrameType, file: str) -> None:
        """Count a call, or a generator that goes on."""
        code = frame.f_code
        self.calls += 1
        if code not in self.carriers and _carries(frame, self._mark):
            self.carriers.add(code)
        self.switches += file != self._last_file
        self._last_file = file
        self.functions.setdefault(code, file)

    @property
    def files(self) -> int:
        """The number of files."""
        return len(set(self.functions.values()))

    @property
    def generators(self) -> list[str]:
        """The asynchronous generators, by name."""
        return [code.co_qualname for code in self.functions if code.co_flags & inspect.CO_ASYNC_GENERATOR]

    def __str__(self) -> str:
        return (
            f"{len(self.functions)} functions in {self.files} files, {self.calls} calls, "
            f"{self.switches} changes of file" + (f", {len(self.carriers)} functions carry it" if self._mark else "")
        )


def _carries(frame: FrameType, mark: str) -> bool:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return bool(mark) and any(_contains(frame.f_locals.get(name), mark, 4) for name in names if name != "self")


def _contains(value: Any, mark: str, depth: int) -> bool:
    if isinstance(value, str):
        return mark in value
    if isinstance(value, bytes):
        return mark.encode() in value
    if not depth:
        return False
    if isinstance(value, dict):
        return any(_contains(entry, mark, depth - 1) for entry in value.values())
    if isinstance(value, list | tuple):
        return any(_contains(entry, mark, depth - 1) for entry in value)
    if isinstance(value, Struct):
        return any(_contains(getattr(value, field), mark, depth - 1) for field in value.__struct_fields__)
    return False


def is_ours(path: str) -> bool:
    """Return whether a file belongs to this repository, apart from its benchmarks."""
    real = Path(path).resolve()
    return real.is_relative_to(ROOT) and not {".venv", "benchmarks"} & {*real.parts}


class Counts:
    """The tasks of one request, by the coroutine that they run, and the calls of functions."""

    def __init__(self) -> None:
        self.tasks: Counter[str] = Counter()
        """The tasks that this repository starts."""
        self.other_tasks: Counter[str] = Counter()
        """Those that LangGraph and other packages start, even if they run a function of this repository."""
        self.calls = 0

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count what happens in the block."""
        loop = asyncio.get_running_loop()
        loop.set_task_factory(self._make_task)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            loop.set_task_factory(None)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call."""
        self.calls += event == "call"

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and "/asyncio/" in frame.f_code.co_filename:
            frame = frame.f_back
        tasks = self.tasks if frame is not None and is_ours(frame.f_code.co_filename) else self.other_tasks
        tasks[getattr(coroutine, "__qualname__", str(coroutine))] += 1
        return asyncio.Task(coroutine, loop=loop, **options)

    def __str__(self) -> str:
        return f"{self.calls:,} calls, {self.tasks.total()} tasks of ours, {self.other_tasks.total()} of others"


class Profile:
    """The windows of a request, filled by `sys.setprofile`."""

    def __init__(self) -> None:
        self.whole = PassedCode()
        self.way_in = PassedCode(QUESTION)
        self.way_out = PassedCode(PIECE)
        self.streamed, self.chain, self.chain_by_hand = Counts(), Counts(), Counts()
        self.open: list[PassedCode] = []
        self.is_streaming = False
        self.is_complete = False
        self._files: dict[str, str] = {}

    @contextmanager
    def trace(self, *windows: PassedCode) -> Generator[None]:
        """Open these windows."""
        sys.setprofile(self)
        self.open.extend(windows)
        try:
            yield
        finally:
            self.open.clear()
            sys.setprofile(None)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Record an event of the interpreter in the open windows."""
        if not self.open:
            return
        code = frame.f_code
        file = self._file(code.co_filename)
        if not file:
            return
        if event == "call":
            for window in self.open:
                window.note(frame, file)
        elif event == "return" and code.co_name == "open_turn" and self.way_in in self.open:
            self.open.remove(self.way_in)

    def _file(self, path: str) -> str:
        if path.startswith("<"):
            return ""  # generated code
        name = self._files.get(path)
        if name is None:
            name = self._files[path] = str(Path(path).resolve().relative_to(ROOT)) if is_ours(path) else ""
        return name


class MarkedModel:
    """A model whose second piece is alone in its time."""

    context_tokens = 8192
    has_vision = False
    has_tools = False
    has_schemas = False

    def __init__(self) -> None:
        self.on_piece: Callable[[], None] = lambda: None

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Choose the category of the example."""
        return ChatAnswer("Delivery")

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatDelta]:
        """Yield a piece, the measured one, and another."""
        yield ChatDelta("before ")
        await asyncio.sleep(QUIET_S)
        self.on_piece()
        yield ChatDelta(PIECE)
        await asyncio.sleep(QUIET_S)
        yield ChatDelta("after")


async def _request(app: Any, path: str, key: str, body: Any, on_body: OnBody | None = None) -> bytes:
    """Return the whole answer of one request, sent as a server sends it."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json")],
    }  # fmt: skip
    messages: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    answer: list[bytes] = []

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        return await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            if on_body is not None:
                on_body(message["body"])
            answer.append(message["body"])

    await app(scope, receive, send)
    return b"".join(answer)


async def _measure(folder: Path) -> Profile:
    model, profile = MarkedModel(), Profile()

    def open_way_out() -> None:
        if profile.is_streaming:
            profile.open.append(profile.way_out)

    def close_way_out(body: bytes) -> None:
        if PIECE.encode() in body and profile.way_out in profile.open:
            profile.open.remove(profile.way_out)
            profile.is_complete = True

    model.on_piece = open_way_out
    async with ours(folder, model) as (app, _, key):
        routed = await _warm(app, key, json.loads(CANVAS.read_text(encoding="utf-8")))
        streamed = await _warm(app, key, canvases.streaming())
        with profile.trace(profile.whole, profile.way_in):
            await _request(app, COMPLETIONS, key, routed)
        profile.is_streaming = True
        with profile.trace():
            answer = await _request(app, COMPLETIONS, key, streamed, close_way_out)
        profile.is_streaming = False
        await _count(profile.streamed, app, COMPLETIONS, key, streamed)
        await _count(profile.chain, app, COMPLETIONS, key, await _warm(app, key, canvas()))
    async with by_hand("theirs", folder) as (app, _, key):
        await _request(app, "/chat", key, {"query": QUESTION})
        await _count(profile.chain_by_hand, app, "/chat", key, {"query": QUESTION})
    if not profile.is_complete:
        raise SystemExit(f"The measured piece did not arrive: {answer[-2000:]!r}")
    return profile


async def _count(counts: Counts, app: Any, path: str, key: str, body: Any) -> None:
    with counts.counted():
        await _request(app, path, key, body)


async def _warm(app: Any, key: str, dsl: Any) -> dict[str, Any]:
    """Create an agent and run it once; return the body of its requests."""
    created = await _request(app, "/api/v1/agents", key, {"title": uuid.uuid4().hex, "dsl": dsl})
    body = {"agent_id": json.loads(created)["data"]["id"], "query": QUESTION, "stream": True}
    await _request(app, COMPLETIONS, key, body)
    return body


def _list(window: PassedCode) -> str:
    return "\n".join(
        f"  {'*' if code in window.carriers else ' '} {file}: {code.co_qualname}"
        for code, file in window.functions.items()
    )


def main() -> None:
    """Print the figures; ``--list`` adds the functions of both ways and the tasks.

    A star marks functions that carry the text, and tasks of ours.
    """
    with tempfile.TemporaryDirectory() as folder:
        profile = asyncio.run(_measure(Path(folder)))
    lists = "--list" in sys.argv[1:]
    print(f"one warm request of five nodes:         {profile.whole}")
    print(f"in, from the body to sys.query:         {profile.way_in}")
    if lists:
        print(_list(profile.way_in))
    print(f"out, from a model's piece to its frame: {profile.way_out}")
    if lists:
        print(_list(profile.way_out))
    generators = profile.way_out.generators
    print(f"asynchronous generators on the way out: {len(generators)}: {', '.join(generators)}")
    for name, counts in (
        ("the streamed request", profile.streamed),
        ("five nodes without a model", profile.chain),
        ("the same graph on the small server", profile.chain_by_hand),
    ):
        print(f"{name}: {counts}")
        for mark, tasks in ("*", counts.tasks), (" ", counts.other_tasks):
            for task, number in tasks.most_common() if lists else ():
                print(f"  {mark} {number} {task}")


if __name__ == "__main__":
    main()
