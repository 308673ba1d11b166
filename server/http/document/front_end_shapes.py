"""Models that document the routes of RAGFlow's front end, without their envelopes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ragflow_lg.server.http.document.response_shapes import Ms


class SignInBody(BaseModel):
    """An e-mail address of the settings with its password, or an API key as the password."""

    email: str = ""
    password: Annotated[str, Field(examples=["ragflow-…"])]


class SignInChannel(BaseModel):
    """A way to sign in: the page `/api/v1/auth/login/CHANNEL`."""

    channel: Literal["key"]
    display_name: str
    icon: Literal["sso"]


class Person(BaseModel):
    """The person who is signed in."""

    id: Annotated[str, Field(description="Id of the tenant.")]
    nickname: str
    email: Annotated[str, Field(description="Empty if the person signed in with an API key.")]
    avatar: None
    language: str
    color_schema: str
    timezone: str
    login_channel: Literal["password", "key"]
    is_superuser: Literal[False]
    is_active: Literal["1"]
    is_anonymous: Literal["0"]
    is_authenticated: Literal["1"]
    status: Literal["1"]


class SignedIn(Person):
    """The person who has signed in, and the token for further requests."""

    access_token: str


class BackendLanguage(BaseModel):
    """The kind of RAGFlow server that the front end should expect."""

    language: Literal["python"]


class SystemConfig(BaseModel):
    """Parts of the front end to hide."""

    registerEnabled: Literal[0]
    disablePasswordLogin: Literal[True]


class KeyShown(BaseModel):
    """An API key of the tenant."""

    tenant_id: str
    name: str
    token: Annotated[str, Field(description="Beginning of the key.")]
    beta: Annotated[str, Field(description="Token for embedded pages, valid as long as the key.")]
    create_time: Ms
    create_date: str
    update_time: Ms
    update_date: str


class TenantModels(BaseModel):
    """The tenant and the ids of its default models; empty if there is none."""

    tenant_id: str
    name: str
    role: Literal["owner"]
    parser_ids: str
    llm_id: str
    embd_id: str
    rerank_id: str
    asr_id: str
    img2txt_id: str
    tts_id: str
    ocr_id: str


class _Member(BaseModel):
    nickname: str
    email: str
    avatar: None
    update_date: str
    delta_seconds: float


class TenantShown(_Member):
    """A tenant that the person can work with."""

    tenant_id: str
    role: Literal["owner"]


class TenantPerson(_Member):
    """A user of a tenant."""

    id: str
    user_id: str
    role: Literal["normal"]
    status: Literal["1"]
    is_active: Literal["1"]


class ChatList(BaseModel):
    """The chat assistants: always none."""

    chats: list[dict[str, Any]]
    total: int


class SearchList(BaseModel):
    """The search applications: always none."""

    search_apps: list[dict[str, Any]]
    total: int
