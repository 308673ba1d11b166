"""What is wrong with a model's answer as a whole: it is empty, was cut off or blocked, or repeats itself."""

from __future__ import annotations

import re

from msgspec import Struct, field

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.plan import is_answer
from ragflow_lg.models.chat_params import PromptedParams
from ragflow_lg.services.chat import ChatAnswer

LENGTH_NOTICE = "\n\n… (The answer stops here, because it reached the model's limit of tokens.)"
LENGTH_NOTICE_CHINESE = "\n\n……（回答已达到模型的 token 数上限，到此中断。）"
_HAN = re.compile(r"[\u4e00-\u9fff]")
_OTHER_LETTERS = re.compile(r"[A-Za-z\u3040-\u30ff\uac00-\ud7af]")
_SAMPLE_CHARS = 2_000
_MAX_REFUSAL_CHARS = 300

EMPTY_TRIES = 2
"""How often a model is asked for an answer before an empty one is an error."""


def length_notice(text: str) -> str:
    """Return the notice to append to an answer that was cut off at its limit, in the answer's language.

    >>> length_notice("First, switch off the") == LENGTH_NOTICE, length_notice("首先") == LENGTH_NOTICE_CHINESE
    (True, True)
    """
    sample = text[-_SAMPLE_CHARS:]
    is_chinese = len(_HAN.findall(sample)) * 2 > len(_OTHER_LETTERS.findall(sample))
    return LENGTH_NOTICE_CHINESE if is_chinese else LENGTH_NOTICE


def cut_notice(ctx: RunContext, params: PromptedParams, text: str) -> str:
    """Return the notice to append to this answer if it was cut off and somebody reads it, else ``""``.

    Messages show it, and the model that has called an agent reads it. Other nodes take the answer as data.
    """
    if ctx.finish_reason != "length" or not params.length_notice:
        return ""
    templates = (alternative.template for plan in ctx.plan.messages.values() for alternative in plan.alternatives)
    segments = (segment for template in templates for segment in template.segments)
    is_shown = any(not isinstance(s, str) and s.node == ctx.node.id and is_answer(s) for s in segments)
    return length_notice(text) if is_shown or ctx.caller else ""


def is_empty(answer: ChatAnswer) -> bool:
    """Return whether an answer has neither text nor calls."""
    return not answer.calls and not answer.text.strip()


def empty_answer_error(ctx: RunContext) -> ServiceError:
    """Return the error for a model that gives no answer."""
    reason = " It reached its limit of tokens before it began." if ctx.finish_reason == "length" else ""
    return ServiceError(f"The model returned an empty answer {EMPTY_TRIES} times.{reason}")


def check_end(ctx: RunContext, answer: ChatAnswer) -> None:
    """Keep why an answer ended, for the node's event.

    Raises:
        ServiceError: if it was blocked or refused.
    """
    ctx.finish_reason = answer.end if answer.end in ("length", "content_filter") else ""
    if answer.end != "content_filter":
        return
    text = " ".join(answer.text.split())[:_MAX_REFUSAL_CHARS]
    raise ServiceError(
        "The model's answer was blocked by a content filter, or the model refused to answer "
        f"(finish_reason: content_filter){': ' if text else '.'}{text}"
    )


def cut_data_error(kind: str = "JSON") -> ComponentError:
    """Return the error for data that was cut off."""
    return ComponentError(
        f"The model's answer was cut off at its limit of tokens (finish_reason: length), so its {kind} is not complete "
        "and is not used. Raise max_tokens, or ask for a shorter answer."
    )


def refuse_cut_sql(ctx: RunContext) -> None:
    """Raise a ComponentError if this answer was cut off and an ExeSQL would run it: half a query has other results."""
    if ctx.finish_reason != "length" or ctx.compatibility.unchecked_answers:
        return
    readers = (node for node in ctx.plan.nodes.values() if node.spec.name == "ExeSQL")
    if any(r.node == ctx.node.id and is_answer(r) for node in readers for r, _ in node.references):
        ctx.refusals += 1
        raise cut_data_error("SQL")


MAX_PERIOD_CHARS = 400
MIN_REPEATED_CHARS = 5_000
MAX_REPEATED_CHARS = 20_000
MAX_REPEATS = 1_000
_CHECK_CHARS = 1_000
"""How much text arrives between two searches for a repetition."""


class RepetitionGuard(Struct):
    """Stops an answer that repeats the same piece without end.

    A piece of up to `MAX_PERIOD_CHARS` characters may be repeated `MAX_REPEATS` times in a row, or for
    `MAX_REPEATED_CHARS`; short pieces for at least `MIN_REPEATED_CHARS`.
    """

    pieces: list[str] = field(default_factory=list[str])
    unchecked: int = 0

    def feed(self, text: str) -> None:
        """Add a piece.

        Raises:
            ServiceError: if the answer repeats itself.
        """
        self.pieces.append(text)
        self.unchecked += len(text)
        if self.unchecked < _CHECK_CHARS:
            return
        self.unchecked = 0
        tail = "".join(self.pieces)[-(MAX_REPEATED_CHARS + MAX_PERIOD_CHARS) :]
        self.pieces = [tail]
        period = find_period(tail)
        repeated = _repeated_chars(tail, period) if period else 0
        if period and repeated >= max(MIN_REPEATED_CHARS, min(MAX_REPEATS * period, MAX_REPEATED_CHARS)):
            piece = tail[-period:][:40]
            raise ServiceError(
                f"The model repeats the same text without end and was stopped: {piece!r} for {repeated:,} characters."
            )


def find_period(text: str) -> int:
    """Return after how many characters the end of a text repeats itself; 0 if it does not.

    >>> find_period("Well: " + "ha " * 400), find_period("It is far.")
    (3, 0)
    """
    size = len(text)
    sample = text[-MAX_PERIOD_CHARS:]
    if size < 2 * MAX_PERIOD_CHARS:
        return 0
    at = text.rfind(sample, size - 2 * MAX_PERIOD_CHARS, size - 1)
    return size - len(sample) - at if at >= 0 else 0


def _repeated_chars(text: str, period: int) -> int:
    """Return how many characters at the end of a text repeat the piece of this length."""
    piece = text[-period:]
    low, high = 1, len(text) // period
    while low < high:
        middle = (low + high + 1) // 2
        if text.endswith(piece * middle):
            low = middle
        else:
            high = middle - 1
    return low * period
