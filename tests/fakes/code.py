"""A sandbox with scripted results that records its requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult


@dataclass
class ScriptedSandbox:
    """Returns the same result for every program, or raises an error."""

    result: CodeResult = field(default_factory=CodeResult)
    error: Exception | None = None
    requests: list[CodeRequest] = field(default_factory=list[CodeRequest])

    async def run(self, request: CodeRequest) -> CodeResult:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return self.result
