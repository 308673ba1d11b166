"""How many tokens agents may use: an agent, the agents that it calls, theirs, all of one account."""

from __future__ import annotations

from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import to_text
from ragflow_lg.services.chat import ChatAnswer, ChatRequest

__all__ = ["TokenBudget", "count_tokens"]


class TokenBudget:
    """What the models of a visit have used. What is used within another one is used of that one too."""

    def __init__(self, outer: TokenBudget | None = None) -> None:
        self.limit = 0
        """The most that may be used before an answer is due, 0 for no limit."""
        self.spent = 0
        self._outer = outer
        self._steps: set[str] = set()

    def charge(self, tokens: int) -> None:
        """Count tokens that were used just now."""
        self.spent += tokens
        if self._outer is not None:
            self._outer.charge(tokens)

    def take(self, position: str, tokens: int, *, is_charged: bool) -> None:
        """Count those of a step once: as it is done, or where its stored result comes from before a crash."""
        if not is_charged and position not in self._steps:
            self.charge(tokens)
        self._steps.add(position)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit, here or further out."""
        return self.limit > 0 or self.is_shared

    @property
    def is_shared(self) -> bool:
        """Whether there is a limit further out, which others use up at the same time."""
        return self._outer is not None and self._outer.is_limited

    @property
    def is_spent(self) -> bool:
        """Whether a limit is reached, here or further out."""
        return 0 < self.limit <= self.spent or (self._outer is not None and self._outer.is_spent)


def count_tokens(request: ChatRequest, answer: ChatAnswer) -> int:
    """Give the tokens of a call of a model, an estimate where the endpoint does not count."""
    counted = answer.usage.prompt_tokens + answer.usage.completion_tokens
    if counted:
        return counted
    texts = (request.system, *(to_text(message.get("content")) for message in request.messages), answer.text)
    return sum(map(estimate_tokens, texts)) + sum(estimate_tokens(call.arguments) for call in answer.calls)
