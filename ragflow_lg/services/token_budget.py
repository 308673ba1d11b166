"""Token budgets of agents, nested: an agent, the agents it calls, all of one account."""

from __future__ import annotations

from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import to_text
from ragflow_lg.services.chat import ChatAnswer, ChatRequest

__all__ = ["TokenBudget", "count_tokens"]


class TokenBudget:
    """A counter of used tokens with a limit. Usage also counts in the outer budget."""

    def __init__(self, outer: TokenBudget | None = None) -> None:
        self.limit = 0
        """The number of tokens after which the agent has to answer; 0 for no limit."""
        self.spent = 0
        self._outer = outer
        self._steps: set[str] = set()

    def charge(self, tokens: int) -> None:
        """Count used tokens."""
        self.spent += tokens
        if self._outer is not None:
            self._outer.charge(tokens)

    def charge_step(self, position: str, tokens: int, *, is_charged: bool) -> None:
        """Count the tokens of a step once: when it runs, or when its result is restored after a crash."""
        if not is_charged and position not in self._steps:
            self.charge(tokens)
        self._steps.add(position)

    @property
    def is_limited(self) -> bool:
        """Whether this budget or an outer one has a limit."""
        return self.limit > 0 or self.is_shared

    @property
    def is_shared(self) -> bool:
        """Whether an outer budget has a limit, which others use at the same time."""
        return self._outer is not None and self._outer.is_limited

    @property
    def is_spent(self) -> bool:
        """Whether this budget or an outer one has reached its limit."""
        return 0 < self.limit <= self.spent or (self._outer is not None and self._outer.is_spent)


def count_tokens(request: ChatRequest, answer: ChatAnswer) -> int:
    """Return the tokens of a model call, an estimate if the endpoint does not count them."""
    counted = answer.usage.prompt_tokens + answer.usage.completion_tokens
    if counted:
        return counted
    texts = (request.system, *(to_text(message.get("content")) for message in request.messages), answer.text)
    return sum(map(estimate_tokens, texts)) + sum(estimate_tokens(call.arguments) for call in answer.calls)
