"""Which sessions of the protocol are open, and which one ends when there are too many."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple


class SessionOwner(NamedTuple):
    """Who opened a session. Only requests with the same key are answered."""

    tenant: str
    key: str

    @property
    def client_id(self) -> str:
        """The owner as one text."""
        return f"{self.tenant}/{self.key}"


class OpenSessions:
    """The open sessions in the order of their last use, with a share for each tenant.

    Sessions that nobody uses end in the SDK by themselves; here they stay the oldest, and so are the first to go.
    """

    def __init__(self, most: int, most_of_tenant: int) -> None:
        """Initialize. ``most`` is the number of all sessions."""
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._owners: OrderedDict[str, SessionOwner] = OrderedDict()
        self._in_use: Counter[str] = Counter()

    def add(self, id_: str, owner: SessionOwner) -> None:
        """Note that a session has been opened."""
        self._owners[id_] = owner

    def discard(self, id_: str) -> None:
        """Note that a session has ended."""
        self._owners.pop(id_, None)

    @contextmanager
    def using(self, id_: str) -> Generator[None]:
        """Keep a session open inside the context, as long as another one can end."""
        self._in_use[id_] += 1
        try:
            yield
        finally:
            self._in_use -= Counter([id_])
            if id_ in self._owners:
                self._owners.move_to_end(id_)

    def find_excess(self, tenant: str) -> tuple[str, SessionOwner] | None:
        """Return the session that must end before the tenant can open another one, or None.

        If the tenant has its share, it is one of its own, else one of the tenant with most sessions. The key with most
        of these gives way: its session that has not been used for longest, if possible one without an open request.
        """
        tenants = Counter(owner.tenant for owner in self._owners.values())
        if tenants[tenant] < self._most_of_tenant:
            if len(self._owners) < self._most:
                return None
            tenant = tenants.most_common(1)[0][0]
        keys = Counter(owner for owner in self._owners.values() if owner.tenant == tenant)
        greedy = keys.most_common(1)[0][0]
        ids = [id_ for id_, owner in self._owners.items() if owner == greedy]
        return next((id_ for id_ in ids if id_ not in self._in_use), ids[0]), greedy
