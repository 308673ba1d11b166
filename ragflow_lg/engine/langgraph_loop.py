"""Running a compiled graph without the work that LangGraph does for those who watch it.

LangGraph makes callback managers, queues, generators and several copies of a config for every node, even if nobody
listens. `play_unwatched` drives LangGraph's own loop with less. Everything here is beyond LangGraph's public interface.
For every name, `tests/ragflow_lg/engine/test_langgraph_loop.py` has a test that fails if LangGraph changes it, and only
the versions that passed these tests are driven this way (`graph_run.KNOWN_VERSIONS`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# Many of these names have open types, and some are private.

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import Any, NamedTuple, cast

from langchain_core.callbacks.manager import AsyncCallbackManager
from langchain_core.globals import get_debug
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.context import _configure_hooks, _tracing_v2_is_enabled
from langgraph._internal._config import ensure_config, get_async_callback_manager_for_config
from langgraph._internal._constants import (
    CONFIG_KEY_CACHE,
    CONFIG_KEY_CHECKPOINT_ID,
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_DURABILITY,
    CONFIG_KEY_NODE_FINISHED,
    CONFIG_KEY_READ,
    CONFIG_KEY_RESUME_MAP,
    CONFIG_KEY_RESUMING,
    CONFIG_KEY_RUNNER_SUBMIT,
    CONFIG_KEY_RUNTIME,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_SEND,
    CONFIG_KEY_STREAM,
    CONFIG_KEY_TASK_ID,
    CONFIG_KEY_THREAD_ID,
    NO_WRITES,
    NS_END,
    NS_SEP,
    PULL,
    TASKS,
)
from langgraph._internal._typing import MISSING
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.errors import GraphDrained, GraphRecursionError, NodeCancelledError
from langgraph.pregel._algo import (
    PregelTaskWrites,
    _proc_input,
    _scratchpad,
    _triggers,
    _xxhash_str,
    checkpoint_null_version,
    local_read,
    task_path_str,
)
from langgraph.pregel._checkpoint import copy_checkpoint, put_writes_accepts_task_path
from langgraph.pregel._loop import AsyncPregelLoop, PregelLoop
from langgraph.pregel._retry import _is_user_raised_cancelled
from langgraph.pregel._runner import PregelRunner
from langgraph.pregel._task_status import CONTROL_WRITES
from langgraph.runtime import ExecutionInfo, RunControl, Runtime
from langgraph.types import PregelExecutableTask

from ragflow_lg.engine.langgraph_channels import ChannelChanges, ChannelKinds, channel_kinds, next_checkpoint
from ragflow_lg.engine.langgraph_runtime import CheapRuntime
from ragflow_lg.engine.langgraph_runtime import with_cheap_runtime as with_cheap_runtime  # for `CanvasGraph`

STEPS_IN_A_ROW = 16
"""After how many supersteps readers of events and other runs go on, and after each that waits for the store.

Were it a time, the order of events would depend on it.
"""

_WATCHED = (
    CONFIG_KEY_STREAM,
    CONFIG_KEY_NODE_FINISHED,
    CONFIG_KEY_RUNNER_SUBMIT,
    CONFIG_KEY_CACHE,
)
"""What LangGraph's server, and graphs whose inner graphs are streamed, put into a config."""


class UnwatchedRun(NamedTuple):
    """The config of a run that nobody watches, and its callbacks, which are none."""

    config: RunnableConfig
    callbacks: AsyncCallbackManager


def unwatched_run(graph: Any, config: Any) -> UnwatchedRun | None:
    """Return the complete config of a run; None if something listens, or if the graph has options of its own."""
    complete = ensure_config(graph.config, config)
    configurable: dict[str, Any] = complete["configurable"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - set
    callbacks = _callbacks_of(complete)
    if callbacks.handlers or any(configurable.get(key) is not None for key in _WATCHED) or not _is_simple(graph):
        return None
    complete["metadata"] = {**complete.get("metadata", {})}  # it is read for each node, and a chain of maps is slow
    return UnwatchedRun(complete, callbacks)


def _callbacks_of(config: RunnableConfig) -> AsyncCallbackManager:
    """Return the callbacks of a run. LangGraph takes longer to find out that there are none."""
    if config.get("callbacks") or _tracing_v2_is_enabled() or get_debug() or _is_hooked():
        return get_async_callback_manager_for_config(config)
    callbacks = AsyncCallbackManager([])
    callbacks.add_tags(config.get("tags") or [])
    callbacks.add_metadata({**config.get("metadata", {})})
    return callbacks


def _is_hooked() -> bool:
    """Return whether a context adds callbacks, or a variable of the environment may."""
    return any(variable.get() is not None or name is not None for variable, _, _, name in _configure_hooks)


def play_unwatched(
    graph: Any,
    state: Any,
    run: UnwatchedRun,
    *,
    context: Any,
    control: RunControl | None = None,
    durability: Any = None,
) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that runs a graph that nobody watches; see `graph_run.play`."""
    complete = run.config
    configurable: dict[str, Any] = complete["configurable"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - set
    if durability is None:
        durability = configurable.get(CONFIG_KEY_DURABILITY, "async")
    else:
        configurable[CONFIG_KEY_DURABILITY] = durability
    around: Runtime[Any] = configurable.get(CONFIG_KEY_RUNTIME) or CheapRuntime(store=graph.store)
    runtime = around.merge(
        Runtime(context=context, store=around.store, control=control or around.control or RunControl())
    )
    configurable[CONFIG_KEY_RUNTIME] = runtime
    loop = _Loop(
        state,
        stream=None,
        config=complete,
        store=around.store,
        cache=None,
        checkpointer=graph._resolve_checkpointer(complete),
        nodes=graph.nodes,
        specs=graph.channels,
        output_keys=graph.stream_channels_asis,
        input_keys=graph.input_channels,
        stream_keys=graph.stream_channels_asis,
        manager=cast("Any", _Unheard(run.callbacks)),
        durability=durability,
        trigger_to_nodes=graph.trigger_to_nodes,
        migrate_checkpoint=graph._migrate_checkpoint,
        kinds=channel_kinds(graph),
    )
    return loop.play()


def _is_simple(graph: Any) -> bool:
    return not (
        graph.interrupt_before_nodes
        or graph.interrupt_after_nodes
        or graph.retry_policy
        or graph.cache
        or graph.step_timeout
        or graph.debug
        or graph.checkpointer is True
        or not channel_kinds(graph).are_plain
    )


class _Unheard:
    """In place of the manager of a run: all nodes have the same callbacks, which are none."""

    def __init__(self, callbacks: AsyncCallbackManager) -> None:
        self._callbacks = callbacks

    def get_child(self, tag: str | None = None) -> AsyncCallbackManager:
        """Return the callbacks of a node."""
        return self._callbacks


class _Unread(set[str]):
    """In place of the sets of a loop that nobody reads. An open stream has a loop, and an empty set takes 0.2 kB."""

    def add(self, element: str) -> None:
        """Do nothing."""


_UNREAD: Any = _Unread()


class _Exits(AsyncExitStack):
    """What a loop does at its end. An empty deque takes 0.7 kB."""

    def __init__(self) -> None:
        self._exit_callbacks = cast("Any", [])


@cache
def _takes_task_path(saver: type[Any]) -> bool:
    return put_writes_accepts_task_path(saver.aput_writes)


class _Loop(AsyncPregelLoop):
    """LangGraph's loop, which adds to gathered steps at once. LangGraph makes a task for each."""

    # What LangGraph declares without a default takes a third of the memory in slots that it takes in a dictionary.
    __slots__ = tuple(PregelLoop.__annotations__.keys() - {*dir(AsyncPregelLoop), "submit"})

    def __init__(self, *arguments: Any, kinds: ChannelKinds, specs: Any, checkpointer: Any, **options: Any) -> None:
        # LangGraph would look at each channel, although all are plain, and at the parameters of the saver's method.
        super().__init__(*arguments, specs={}, checkpointer=None, **options)
        self.specs, self.checkpointer = specs, checkpointer
        if checkpointer:
            del self._checkpointer_put_after_previous  # None, in place of the method
            self.checkpointer_get_next_version = checkpointer.get_next_version
            self.checkpointer_put_writes = checkpointer.aput_writes
            self.checkpointer_put_writes_accepts_task_path = _takes_task_path(type(checkpointer))
        self.stack = _Exits()
        self._callbacks = cast("Any", self.manager).get_child()
        self._kinds = kinds
        self._changes: ChannelChanges | None = None
        """What applies writes, as soon as the checkpoint has the values of all channels."""
        has_steps = hasattr(checkpointer, "steps_of")
        self._steps: Any = checkpointer.steps_of(self.checkpoint_config) if has_steps else None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.set_result(None)

    async def __aenter__(self) -> _Loop:
        """Read the last checkpoint."""
        await super().__aenter__()
        self._graph_lifecycle_events = cast("Any", [])  # nobody takes them
        if self.durability != "exit":  # nothing else needs what is dropped here
            self._initial_checkpoint_config = self.config
            self._written_task_ids = self._stored_delta_writes = _UNREAD
        if not self._resume_loaded_writes:
            self._reapplied_task_ids = _UNREAD
        return self

    async def __aexit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool | None:
        """End the run. LangGraph waits in a task, also if there is nothing to wait for."""
        if exc_value is None and not self._submit.__self__.tasks:
            return await self.stack.__aexit__(None, None, None)
        return await super().__aexit__(exc_type, exc_value, traceback)

    async def play(self) -> Any:
        """Run all supersteps, and return the final state."""
        async with self:
            while self.tick():
                tasks = [task for task in self.tasks.values() if not task.writes]
                await (self._run_alone(tasks[0]) if len(tasks) == 1 else self._run_beside(tasks))
                self.after_tick()
                self.prev_checkpoint_config = None  # only streams of checkpoints and the first step of a replay need it
                if self.durability == "sync" and self._put_checkpoint_fut is not self._done:
                    await cast("asyncio.Future[Any]", self._put_checkpoint_fut)
                    self._put_checkpoint_fut = self._done  # a task would be kept until the next superstep
                elif self.step % STEPS_IN_A_ROW == 0:
                    await asyncio.sleep(0)  # nodes without effects, whose steps are gathered, wait for nothing
        if self.status == "out_of_steps":
            limit = self.config.get("recursion_limit")
            raise GraphRecursionError(f"The recursion limit of {limit} supersteps is reached.")
        if self.status == "draining":
            raise GraphDrained("shutdown")
        return self.output

    async def _run_alone(self, task: Any) -> None:
        """Run the only task of a superstep."""
        try:
            try:
                await task.proc.ainvoke(task.input, task.config)
            except asyncio.CancelledError as error:
                if _is_user_raised_cancelled():
                    raise NodeCancelledError(task.name) from error
                raise
            if all(channel in CONTROL_WRITES for channel, _ in task.writes):
                task.writes.append((NO_WRITES, None))  # it has finished
            self.put_writes(task.id, task.writes)
        except Exception as error:
            self._make_runner().commit(task, error)
            raise

    async def _run_beside(self, tasks: list[Any]) -> None:
        """Run several tasks of a superstep."""
        async for _ in self._make_runner().atick(tasks, schedule_task=self.aaccept_push):
            pass

    def _make_runner(self) -> PregelRunner:
        """Return what ends tasks. A task that runs alone needs it only if it fails."""
        links: Any = partial(getattr, self, "submit"), partial(getattr, self, "put_writes")  # smaller than weak ones
        return PregelRunner(submit=links[0], put_writes=links[1])

    def after_tick(self) -> None:
        """End a superstep as LangGraph does, but without looking at channels that it cannot have changed."""
        if self._changes is None or self._resume_loaded_writes:
            super().after_tick()
            return
        before, tasks = self.checkpoint, list(self.tasks.values())
        changed, updated = self._changes.apply(tasks)
        has_saver = self._checkpointer_put_after_previous is not None
        checkpoint: Any = next_checkpoint(
            before, self.channels, tasks, changed, updated, self.step, has_values=has_saver
        )
        configurable: dict[str, Any] = self.config["configurable"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - set
        metadata: Any = {
            "source": "loop",
            "step": self.step,
            "parents": configurable.get(CONFIG_KEY_CHECKPOINT_MAP, {}),
        }
        self.updated_channels = checkpoint["updated_channels"]  # a list, since a set takes 0.7 kB
        self.checkpoint, self.checkpoint_metadata = checkpoint, metadata
        self.checkpoint_pending_writes.clear()
        self.is_replaying = False
        if has_saver:
            self._put_next(changed)
        self.step += 1
        configurable.pop(CONFIG_KEY_RESUMING, None)

    def _put_next(self, new_versions: Any) -> None:
        """Store the checkpoint of a superstep, after the last one."""
        checkpoint, metadata = self.checkpoint, self.checkpoint_metadata
        config = self.prev_checkpoint_config = self.checkpoint_config
        self.checkpoint_previous_versions = checkpoint["channel_versions"]
        if self._steps is None:
            before = getattr(self, "_put_checkpoint_fut", None)
            put = self._submit(
                self._checkpointer_put_after_previous, before, (), config, checkpoint, metadata, new_versions
            )
        else:
            is_taken = self._steps.take_checkpoint(config, checkpoint, metadata, new_versions)
            put = self._done if is_taken else self._submit(self._steps.flush)
        self._put_checkpoint_fut = put
        place: Any = {**config["configurable"], CONFIG_KEY_CHECKPOINT_ID: checkpoint["id"]}  # pyright: ignore[reportTypedDictNotRequiredAccess] - set
        self.checkpoint_config = {**config, "configurable": place}

    def put_writes(self, task_id: str, writes: Any, *, cached: bool = False) -> None:
        """Store what a node has returned. LangGraph stores everything else, such as pauses and errors."""
        is_known = self._changes is not None and self.checkpointer_put_writes_accepts_task_path
        if not is_known or self.checkpoint_pending_writes or any(name in WRITES_IDX_MAP for name, _ in writes):
            super().put_writes(task_id, writes, cached=cached)
            return
        self.checkpoint_pending_writes.extend((task_id, name, value) for name, value in writes)
        path = task_path_str(self.tasks[task_id].path)
        self.submit(self.checkpointer_put_writes, self.checkpoint_config, writes, task_id, path)

    def _put_checkpoint(self, metadata: Any) -> None:
        """Store a checkpoint that LangGraph has made: the first one of a run."""
        super()._put_checkpoint(metadata)
        if self.durability != "exit":
            self._changes = ChannelChanges(
                self._kinds,
                self.channels,
                self.checkpoint["channel_versions"],
                self.checkpointer_get_next_version,
                self.trigger_to_nodes,
            )

    def _suppress_interrupt(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool | None:
        if exc_value is not None:
            self.checkpoint = copy_checkpoint(self.checkpoint)  # LangGraph changes it, but it may be stored later
        return super()._suppress_interrupt(exc_type, exc_value, traceback)

    @property
    def submit(self) -> Any:
        """What starts a task: a write of the saver, or a node beside others."""
        return self._submit_or_gather

    @submit.setter
    def submit(self, submit: Any) -> None:
        self._submit = submit

    def _prepare_tasks_and_emit_checkpoint(self) -> None:
        """Prepare the tasks of a superstep that its edges trigger; LangGraph prepares all others."""
        updated, channels = self.updated_channels, self.channels
        sends: Any = channels.get(TASKS)
        if not updated or self.checkpoint["v"] < 2 or (sends is not None and sends.is_available()):
            super()._prepare_tasks_and_emit_checkpoint()
            return
        nodes = {node for channel in updated for node in self.trigger_to_nodes.get(channel, ())}
        inputs: dict[Any, Any] = {}
        found = [self._prepare_task(name, inputs) for name in sorted(nodes)]
        self.tasks = {task.id: task for task in found if task is not None}

    def _prepare_task(self, name: str, inputs: dict[Any, Any]) -> PregelExecutableTask | None:
        """Return the task of a node if a channel triggers it: the same as LangGraph's, with fewer copies of the config.

        ``inputs`` are those that other nodes of the superstep have read.
        """
        node, checkpoint = self.nodes[name], self.checkpoint
        configurable: dict[str, Any] = self.config["configurable"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - set
        null_version: Any = checkpoint_null_version(checkpoint)
        seen, versions = checkpoint["versions_seen"].get(name), checkpoint["channel_versions"]
        if node.node is None or not _triggers(self.channels, versions, seen, null_version, node):
            return None
        path, triggers = (PULL, name), tuple(sorted(node.triggers))
        parent: str = configurable.get(CONFIG_KEY_CHECKPOINT_NS, "")
        around = f"{parent}{NS_SEP}{name}" if parent else name
        checkpoint_id = bytes.fromhex(checkpoint["id"].replace("-", ""))
        id_ = _xxhash_str(checkpoint_id, around, str(self.step), name, PULL, *triggers)
        namespace = f"{around}{NS_END}{id_}"
        resume, pending = configurable.get(CONFIG_KEY_RESUME_MAP), self.checkpoint_pending_writes
        outer = configurable.get(CONFIG_KEY_SCRATCHPAD)
        scratchpad = _scratchpad(outer, pending, id_, namespace, resume, self.step, self.stop)
        value = _proc_input(
            node, self.managed, self.channels, for_execution=True, input_cache=inputs, scratchpad=scratchpad
        )
        if value is MISSING:
            return None
        writes: Any = []
        task = PregelTaskWrites(path, name, writes, triggers)
        return PregelExecutableTask(
            name,
            value,
            node.node,
            writes,
            self._task_config(node, task, scratchpad, namespace, id_),
            triggers,
            node.retry_policy or (),
            None,
            id_,
            path,
            writers=node.flat_writers,
            subgraphs=node.subgraphs,
            timeout=node.timeout,
        )

    def _task_config(self, node: Any, task: Any, scratchpad: Any, namespace: str, id_: str) -> Any:
        """Return the config of a node's task, which is that of the run with more in it."""
        config, checkpoint_id = self.config, self.checkpoint["id"]
        configurable: dict[str, Any] = config["configurable"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - set
        run = config.get("run_id")
        info = ExecutionInfo(
            checkpoint_id=checkpoint_id,
            checkpoint_ns=namespace,
            task_id=id_,
            thread_id=configurable.get(CONFIG_KEY_THREAD_ID),
            run_id=str(run) if run else None,
        )
        return {
            **config,
            "callbacks": self._callbacks,
            "tags": [*(config.get("tags") or ()), *(node.tags or ())],
            "metadata": {
                **(config.get("metadata") or {}),
                "langgraph_step": self.step,
                "langgraph_node": task.name,
                "langgraph_triggers": task.triggers,
                "langgraph_path": task.path,
                "langgraph_checkpoint_ns": namespace,
                **(node.metadata or {}),
            },
            "configurable": {
                **configurable,
                CONFIG_KEY_TASK_ID: id_,
                CONFIG_KEY_SEND: task.writes.extend,
                CONFIG_KEY_READ: partial(local_read, scratchpad, self.channels, self.managed, task),
                CONFIG_KEY_CHECKPOINTER: self.checkpointer or configurable.get(CONFIG_KEY_CHECKPOINTER),
                CONFIG_KEY_CHECKPOINT_MAP: {
                    **configurable.get(CONFIG_KEY_CHECKPOINT_MAP, {}),
                    configurable.get(CONFIG_KEY_CHECKPOINT_NS, ""): checkpoint_id,
                },
                CONFIG_KEY_CHECKPOINT_ID: None,
                CONFIG_KEY_CHECKPOINT_NS: namespace,
                CONFIG_KEY_SCRATCHPAD: scratchpad,
                CONFIG_KEY_RUNTIME: configurable[CONFIG_KEY_RUNTIME].override(store=self.store, execution_info=info),
            },
        }

    def _submit_or_gather(self, work: Any, *arguments: Any, **options: Any) -> Any:
        is_taken: bool | None = None
        if self._steps is None:
            return self._submit(work, *arguments, **options)
        if work == self._checkpointer_put_after_previous:
            is_taken = self._steps.take_checkpoint(*arguments[2:])
        elif work == self.checkpointer_put_writes:
            is_taken = self._steps.take_writes(*arguments)
        if is_taken is None:
            return self._submit(work, *arguments, **options)
        return self._done if is_taken else self._submit(self._steps.flush)
