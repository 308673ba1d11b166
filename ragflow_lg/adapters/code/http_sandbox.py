"""The client of a sandbox service: RAGFlow's own one, or ``ragflow-lg sandbox serve``."""

from __future__ import annotations

import json
import time

from ragflow_lg.adapters.code.code_limits import DEFAULT_LIMITS, CodeLimits, exceeded
from ragflow_lg.adapters.code.sandbox_messages import read_reply, write_request
from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.services.code import CodeRequest, CodeResult
from ragflow_lg.services.http import HttpClient, HttpRequest

QUEUE_S = 20.0
"""How long a request may wait in the service, in addition to the time limit of its program."""

HEALTHY_S = 30.0
"""How long the service counts as healthy after it has said so."""

_MAX_SHOWN_CHARS = 500


class HttpSandbox:
    """A `ragflow_lg.services.code.CodeSandbox` that sends programs to a service."""

    def __init__(self, url: str, http: HttpClient, limits: CodeLimits = DEFAULT_LIMITS, *, key: str = "") -> None:
        """Initialize. ``url`` is the service's address, and ``key`` its key; RAGFlow's service has none."""
        self._url = url.rstrip("/")
        self._http = http
        self._limits = limits
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._healthy_until = 0.0

    async def run(self, request: CodeRequest) -> CodeResult:
        """Send a program to the service, which has its own limits."""
        if len(request.code) > self._limits.code_bytes:
            raise exceeded(self._limits, "code_bytes")
        await self.check_health()
        limit_s = self._limits.timeout_s + QUEUE_S
        body = write_request(request)
        message = HttpRequest("POST", f"{self._url}/run", self._headers, json=body, timeout_s=limit_s)
        try:
            response = await self._http.send(message)
        except ServiceError:
            self._healthy_until = 0.0
            raise
        if response.status != 200:
            raise ServiceError(f"HTTP {response.status}: {response.text[:_MAX_SHOWN_CHARS]}")
        try:
            return read_reply(json.loads(response.text))
        except (ValueError, RecursionError, ComponentError) as error:
            raise ServiceError(f"The sandbox at {self._url} answered with unusable JSON: {error}") from None

    async def check_health(self) -> None:
        """Check that the service can run programs.

        Raises:
            ServiceError: if it is not reachable, or does not say so.
        """
        if time.monotonic() < self._healthy_until:
            return
        response = await self._http.send(HttpRequest("GET", f"{self._url}/healthz", self._headers, timeout_s=5.0))
        if response.status != 200:
            raise ServiceError(f"The sandbox at {self._url} is not healthy: it answered {response.status}.")
        self._healthy_until = time.monotonic() + HEALTHY_S

    def for_tenant(self, tenant: str) -> HttpSandbox:
        """Return this object, which has no queue."""
        return self
