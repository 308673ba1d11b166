"""Fields of the bodies and queries of RAGFlow's APIs, as leniently as RAGFlow reads them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import ApiCaller
from ragflow_lg.server.http.shared.request_bodies import parse_flag, to_text

MAX_PAGE_SIZE = 100
MAX_LONG_PAGE_SIZE = 10_000
"""Length of the longest page for clients of a RAGFlow without a limit; they get at most that many rows."""
PAGE_SIZE = 30
MAX_PAGE = 1_000_000

Text = Annotated[str, BeforeValidator(to_text)]
Flag = Annotated[bool, BeforeValidator(parse_flag)]


def _read_number(value: Any) -> int:
    """Return a positive whole number, or 0 for any other value."""
    return int(value[:12]) if isinstance(value, str) and value.isascii() and value.isdigit() else 0


def with_examples(*examples: dict[str, Any]) -> ConfigDict:
    """Return the configuration of a model with examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Fields(BaseModel):
    """The fields of a body. Null stands for the default of a field; clients may send others."""

    model_config = ConfigDict(extra="allow")

    may_be_query: ClassVar[bool] = False
    """Whether the fields can also be sent as query parameters."""
    _sent: frozenset[str] = frozenset()
    """Names of the fields in the body, with those that are null: RAGFlow requires a field, but not a value."""

    @model_validator(mode="wrap")
    @classmethod
    def _drop_nulls(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, dict):
            return read(value)
        sent = cast("dict[str, Any]", value)
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        fields = read({name: each for name, each in sent.items() if each is not None or name in required})
        fields._sent = frozenset(sent)
        return fields

    def require(self, *names: str) -> None:
        """Check that the client has sent some fields.

        Raises:
            RequestError: with RAGFlow's message, if it has not.
        """
        if missing := [name for name in names if name not in self._sent]:
            raise RequestError(f"required argument are missing: {','.join(missing)}; ", 101, has_data=True)

    def is_empty(self) -> bool:
        """Return whether the client has sent no fields."""
        return not self._sent

    def given(self) -> dict[str, Any]:
        """Return the fields that the client has sent."""
        return self.model_dump(exclude_unset=True)


class Pages(BaseModel):
    """A page of a list. Invalid values are treated as missing."""

    page: Annotated[int, BeforeValidator(_read_number), Field(description="Number of the page, from 1.")] = 1
    page_size: Annotated[int, BeforeValidator(_read_number), Field(description="Rows per page, at most 100.")] = 0

    def read(self, caller: ApiCaller, default_size: int = PAGE_SIZE) -> tuple[int, int]:
        """Return the page number and the page size.

        Raises:
            RequestError: if the page size exceeds `MAX_PAGE_SIZE`, and the client's RAGFlow has that limit.
        """
        size = self.page_size or default_size
        if caller.has_long_pages:
            size = min(size, MAX_LONG_PAGE_SIZE)
        elif size > MAX_PAGE_SIZE:
            raise RequestError(f"page_size is at most {MAX_PAGE_SIZE}.", 101)
        return min(self.page or 1, MAX_PAGE), size


class Refusal(BaseModel):
    """The reason for a refusal or failure."""

    code: Annotated[
        int,
        Field(
            description="101: invalid. 102: not found, or in use. 103: not authorized, or busy. 100, 500: failed. "
            "Others: as the HTTP status."
        ),
    ]
    message: Annotated[str, Field(description="Explanation for readers.")]
    data: Annotated[Any, Field(description="Usually omitted; otherwise RAGFlow's value, such as `false`.")] = None
