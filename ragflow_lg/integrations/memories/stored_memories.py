"""The memories: exchanges are stored at once, and what they say is extracted in the background."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from langgraph.config import get_config
from langgraph.store.base import Item
from msgspec import Struct
from msgspec.structs import asdict, replace

from ragflow_lg.base.errors import CheckpointError, RagflowLgError, ServiceError
from ragflow_lg.integrations.memories.background_tasks import BackgroundTasks
from ragflow_lg.integrations.memories.memory_layout import (
    PendingExchange,
    check_user,
    created_at,
    done_value,
    exchange_value,
    pending_exchange,
)
from ragflow_lg.integrations.memories.memory_settings import MemorySections
from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf, Namespace
from ragflow_lg.models.engine_prompts import fill_prompt
from ragflow_lg.models.prompt_texts import chosen_text
from ragflow_lg.models.structured_answer import read_answer
from ragflow_lg.services.chat import ChatRequest, Usage
from ragflow_lg.services.memories import Exchange, MemoryResult, MemorySearch, MemoryType, Remembered

if TYPE_CHECKING:
    from ragflow_lg.integrations.memories.created_memories import CreatedMemories
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""How often an extraction is tried."""

ABANDONED_S = 600.0
"""When another process takes up an extraction that has not ended."""

UPKEEP_EACH = 32
"""Number of uses of a namespace between two looks at all of its entries."""

SWEEP_S = 86_400.0
"""How often a process looks at what all users of a tenant have together."""

MAX_COUNTED = 10_000
"""Maximum number of namespaces whose uses are counted."""

MAX_QUESTION_CHARS = 6_000
EXTRACTION_TEMPERATURE = 0.1


class StoredMemories:
    """The `ragflow_lg.services.memories.Memories` of a tenant."""

    def __init__(
        self,
        shelves: Mapping[str, MemoryShelf],
        tasks: BackgroundTasks,
        services: Services,
        tenant: str = "default",
        agent: str = "",
        realm: str = "",
        created: CreatedMemories | None = None,
        charge: Callable[[Usage], Awaitable[None]] | None = None,
    ) -> None:
        """Initialize. ``services`` have the model, the prompt and the clock; ``created`` is what tenants create.

        ``charge`` receives what extractions use.
        """
        self.shelves = shelves
        self.tenant = tenant
        self._tasks = tasks
        self._services = services
        self._clock = services.clock
        self._agent = agent
        self._realm = realm
        self.created = created
        self._charge = charge
        self._uses: Counter[Namespace] = Counter()
        self._sweeps: dict[str, float] = {}

    def for_tenant(self, settings: Settings, services: Services) -> StoredMemories:
        """Return the memories of the settings of a tenant."""
        shelves = {id_: self.shelves[id_] for id_ in settings.section(MemorySections)}
        return StoredMemories(shelves, self._tasks, services, settings.tenant, created=self.created)

    def of_tenant(self, tenant: str) -> StoredMemories:
        """Return the part of the memories that a tenant has for itself."""
        return StoredMemories(self.shelves, self._tasks, self._services, tenant, created=self.created)

    def for_agent(
        self, agent: str, realm: str = "", charge: Callable[[Usage], Awaitable[None]] | None = None
    ) -> StoredMemories:
        """Return the memories for the runs of an agent, which only know the users of a realm."""
        other = StoredMemories(
            self.shelves, self._tasks, self._services, self.tenant, agent, realm, self.created, charge
        )
        other._uses, other._sweeps = self._uses, self._sweeps
        return other

    async def remember(self, memories: Sequence[str], exchange: Exchange) -> Sequence[str]:
        """Store an exchange in memories, unless it is stored already, and start its extraction."""
        with _as_service():
            session = exchange.session or _running_session()
            exchange = replace(exchange, user=self._realm + exchange.user, agent=self._agent, session=session)
            check_user(exchange.user)
            found = await self._find(memories)
            for shelf in found.values():
                namespace = shelf.namespace(self.tenant, exchange.user)
                if await shelf.store.aget(namespace, exchange.key) is None:
                    now = self._clock.now()
                    value = exchange_value(exchange, self._clock.local_time(), now)
                    await shelf.write(namespace, {exchange.key: value})
                    if await self.find_shelf(shelf.settings.id) is None:  # deleted meanwhile, with all that it had
                        await shelf.delete(namespace, [exchange.key])
                        continue
                    pending = PendingExchange(exchange, now, 0, value)
                    self._tasks.start((namespace, exchange.key), partial(self._finish, shelf, namespace, pending))
                self._keep_up(shelf, namespace)
            return [id_ for id_ in memories if id_ not in found]

    async def search(self, search: MemorySearch) -> MemoryResult:
        """Return what is most similar to a question in all memories together, newest first."""
        with _as_service():
            check_user(search.user)
            shelves = (await self._find(search.memories)).values()
            places = [(shelf, shelf.namespace(self.tenant, self._realm + search.user)) for shelf in shelves]
            for place in places:
                self._keep_up(*place)
            best = await self.find_similar(places, search)
            return MemoryResult(tuple(remembered for _, remembered in best), bool(shelves))

    async def find_similar(
        self,
        places: Sequence[tuple[MemoryShelf, Namespace]],
        search: MemorySearch,
        matches: Callable[[Remembered], bool] = lambda _: True,
    ) -> list[tuple[Item, Remembered]]:
        """Return the entries of some places that are most similar to a question, newest first."""
        question, now = search.question.strip()[:MAX_QUESTION_CHARS], self._clock.now()
        candidates: list[tuple[Item, Remembered]] = []
        for shelf, namespace in places:
            for item, remembered in await shelf.search(namespace, question, search.keywords_similarity_weight, now):
                if remembered.similarity >= search.similarity_threshold and matches(remembered):
                    candidates.append((item, remembered))
        candidates.sort(key=lambda candidate: -candidate[1].similarity)
        return sorted(candidates[: search.top_n], key=lambda candidate: -created_at(candidate[0]))

    async def find_shelf(self, id_: str) -> MemoryShelf | None:
        """Return a memory that the tenant may use, or None."""
        if id_ in self.shelves or self.created is None:
            return self.shelves.get(id_)
        return await self.created.find(self.tenant, id_)

    async def list_shelves(self) -> list[MemoryShelf]:
        """Return the memories that the tenant may use."""
        created = [] if self.created is None else await self.created.list(self.tenant)
        return [*self.shelves.values(), *created]

    async def embed_again(self, id_: str) -> None:
        """Begin to embed again what another model than that of a memory has embedded."""
        if (shelf := await self.find_shelf(id_)) is not None:
            self._tasks.start((id_, self.tenant, shelf.settings.embedding_model), partial(self._embed_again, shelf))

    async def _embed_again(self, shelf: MemoryShelf) -> None:
        with _logged(shelf, "embedded again"):
            await shelf.embed_again(self.tenant)

    async def _find(self, ids: Sequence[str]) -> dict[str, MemoryShelf]:
        found = {id_: await self.find_shelf(id_) for id_ in dict.fromkeys(ids)}
        return {id_: shelf for id_, shelf in found.items() if shelf is not None}

    def _keep_up(self, shelf: MemoryShelf, namespace: Namespace) -> None:
        """Look at all entries now and then: forget, and take up what another process has left."""
        if self._sweeps.get(shelf.settings.id, 0.0) <= self._clock.now() - SWEEP_S:
            self._sweeps[shelf.settings.id] = self._clock.now()
            self._tasks.start((shelf.settings.id, self.tenant), lambda: self._sweep(shelf))
        if len(self._uses) >= MAX_COUNTED:
            self._uses.clear()
        self._uses[namespace] += 1
        if self._uses[namespace] % UPKEEP_EACH == 1:
            self._tasks.start((namespace,), lambda: self._look_after(shelf, namespace))

    async def _sweep(self, shelf: MemoryShelf) -> None:
        with _logged(shelf, "looked after"):
            _log_forgotten(shelf, await shelf.forget_of_all(self.tenant, self._clock.now()))

    async def _look_after(self, shelf: MemoryShelf, namespace: Namespace) -> None:
        now = self._clock.now()
        with _logged(shelf, "looked after"):
            entries = await shelf.entries(namespace)
            _log_forgotten(shelf, await shelf.forget(namespace, entries, now))
            for entry in entries:
                pending = pending_exchange(entry)
                if pending is not None and pending.since < now - ABANDONED_S:
                    work = partial(self._take_up, shelf, namespace, entry, pending)
                    self._tasks.start((namespace, entry.key), work)
            with _logged(shelf, "embedded again"):  # nothing finds what an earlier model has embedded
                if embedded := await shelf.embed_user_again(namespace):
                    logger.info("The memory %r has embedded %d entries again.", shelf.settings.id, embedded)

    async def _take_up(self, shelf: MemoryShelf, namespace: Namespace, entry: Item, pending: PendingExchange) -> None:
        """Extract what was left, unless another process has done so or has begun."""
        is_ours = False
        with _logged(shelf, "written"):
            is_ours = await shelf.claim(namespace, entry.key, pending.since, self._clock.now())
        if is_ours:
            await self._finish(shelf, namespace, pending)

    async def _finish(self, shelf: MemoryShelf, namespace: Namespace, pending: PendingExchange) -> None:
        """Extract and store, or note why not. What was deleted meanwhile does not come back."""
        attempts, key = pending.attempts + 1, pending.exchange.key
        value = {**pending.value, "attempts": attempts, "tried_at": self._clock.now()}
        try:
            entries = await self._extract(shelf, pending)
            await self._store_result(shelf, namespace, key, {**value, "extraction": "done"}, entries)
        except (RagflowLgError, TimeoutError) as error:
            logger.warning("Nothing was extracted for the memory %r: %s", shelf.settings.id, error)
            value = {**value, "problem": str(error)[:300]}
            with _logged(shelf, "written"):
                if attempts >= MAX_ATTEMPTS:
                    await self._store_result(shelf, namespace, key, {**value, "extraction": "failed"}, {})
                else:
                    await shelf.write(namespace, {key: value}, key)

    async def _store_result(
        self, shelf: MemoryShelf, namespace: Namespace, key: str, raw: dict[str, Any], entries: Mapping[str, Any]
    ) -> None:
        """Store an exchange after its last extraction, if its text is wanted, and what was extracted from it."""
        done = done_value(raw, is_kept="raw" in shelf.settings.types)
        shelf = await self.find_shelf(shelf.settings.id) or shelf  # its embedding model may have changed meanwhile
        await shelf.write(namespace, {**entries, key: done}, key)

    async def _extract(self, shelf: MemoryShelf, pending: PendingExchange) -> dict[str, dict[str, Any]]:
        """Return the values of entries by their keys."""
        types = shelf.settings.extracted_types
        if not types:
            return {}
        exchange, time = pending.exchange, str(pending.value.get("valid_at") or self._clock.local_time())
        model = self._services.models.model(shelf.settings.llm_id)
        prompt = chosen_text(self._services.prompts, "memory_extraction")
        answer = await model.complete(extraction_request(prompt, exchange, types, time))
        if self._charge is not None:
            with _logged(shelf, "charged"):
                await self._charge(answer.usage)
        found = read_extraction(await self._services.workers.run(read_answer, answer.text), types, time)
        now = self._clock.now()
        origin = {"user": exchange.user, "agent": exchange.agent, "session": exchange.session}
        origin |= {"source": exchange.key, "created_at": now}
        return {f"{exchange.key}-{number}": {**asdict(entry), **origin} for number, entry in enumerate(found, 1)}


def _running_session() -> str:
    """Return the id of the session whose turn this is, or ``""``."""
    try:
        return str(get_config().get("configurable", {}).get("thread_id", "")).replace("-", "")
    except RuntimeError:  # not in a graph
        return ""


@contextmanager
def _as_service() -> Generator[None]:
    """Turn failures of the store into those of a service."""
    try:
        yield
    except CheckpointError as error:
        raise ServiceError(str(error)) from error


@contextmanager
def _logged(shelf: MemoryShelf, participle: str) -> Generator[None]:
    """Log failures: what goes on after a turn has nobody to tell."""
    try:
        yield
    except (RagflowLgError, TimeoutError) as error:
        logger.warning("The memory %r cannot be %s: %s", shelf.settings.id, participle, error)


def _log_forgotten(shelf: MemoryShelf, count: int) -> None:
    if count:
        logger.info("The memory %r has forgotten %d entries.", shelf.settings.id, count)


MAX_PER_TYPE = 5
"""Maximum number of memories of one type from one exchange."""

_MAX_CONTENT_CHARS = 2_000


class Extracted(Struct, frozen=True):
    """One memory from an exchange. Times are in ISO 8601, or ``""``."""

    type: MemoryType
    content: str
    valid_at: str
    invalid_at: str = ""


def extraction_request(prompt: str, exchange: Exchange, types: Sequence[MemoryType], now: str) -> ChatRequest:
    """Return the request to a model. ``now`` is the local time."""
    system = fill_prompt(prompt, {"types": ", ".join(types), "now": now, "most": str(MAX_PER_TYPE)})
    text = f"User: {exchange.question}\n\nAssistant: {exchange.answer}"
    return ChatRequest(system, ({"role": "user", "content": text},), {"temperature": EXTRACTION_TEMPERATURE})


def read_extraction(answer: Any, types: Sequence[MemoryType], now: str) -> list[Extracted]:
    """Return the memories in a parsed answer. What is not understood is left out.

    Raises:
        ServiceError: if the answer is no JSON object.
    """
    if not isinstance(answer, dict):
        raise ServiceError("The model that extracts memories did not answer with a JSON object.")
    return list(_entries(cast("dict[str, Any]", answer), types, now))


def _entries(answer: dict[str, Any], types: Sequence[MemoryType], now: str) -> Iterable[Extracted]:
    for type_ in types:
        entries: Any = answer.get(type_)
        for entry in cast("list[Any]", entries)[:MAX_PER_TYPE] if isinstance(entries, list) else []:
            fields: dict[str, Any] = {"content": entry} if isinstance(entry, str) else entry
            content = fields.get("content") if isinstance(cast("Any", fields), dict) else None
            if isinstance(content, str) and content.strip():
                valid_at = _time(fields.get("valid_at")) or now
                yield Extracted(type_, content.strip()[:_MAX_CONTENT_CHARS], valid_at, _time(fields.get("invalid_at")))


def _time(value: Any) -> str:
    """Return a time of a model in ISO 8601, or ``""``."""
    try:
        return datetime.fromisoformat(value).isoformat() if isinstance(value, str) else ""
    except ValueError:
        return ""
