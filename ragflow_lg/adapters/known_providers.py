"""The providers of models that RAGFlow knows, by the name that it writes after the ``@`` of an ``llm_id``.

Source: ``conf/llm_factories.json``, ``conf/models/*.json`` and ``rag/llm/__init__.py`` of RAGFlow, and the providers'
documentation of their endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

Family: TypeAlias = Literal["openai", "anthropic", "azure", "bedrock", "google", "ollama", ""]
"""The kind of API. ``openai``: compatible with OpenAI's. ``""``: only what `KnownProvider.note` says."""

RerankStyle: TypeAlias = Literal["bedrock", "cohere", "dashscope", "jina", "nvidia", "tei", "voyage"]
"""How requests for reranking look."""


_PATH = re.compile(r"^https?://[^/]*", re.IGNORECASE)
"""What precedes the path of an address."""
_OWN_PATHS = ("", "/v1beta", "/openai")


class KnownProvider(NamedTuple):
    """A provider of models."""

    base_url: str = ""
    """The address for ``/chat/completions`` and ``/embeddings``; ``""`` if every user has another one."""
    key: str = ""
    """The usual environment variable with the key; ``""`` if servers of this kind usually need none."""
    abilities: str = "chat"
    """What its models do: ``chat``, ``embedding``, ``rerank``, ``speech``, ``transcription``, ``vision``."""
    family: Family = "openai"
    rerank_url: str = ""
    """The address for ``/rerank``, if it is another one."""
    note: str = ""
    """Why it cannot be used, or what it needs."""
    compatible_path: str = ""
    """How addresses end that are compatible with OpenAI's API, for providers whose other addresses are not."""
    own_family: Family = ""
    """The family of addresses that have no other path than such APIs have. Others may be those of a proxy."""
    rerank_style: RerankStyle = "jina"
    address_name: str = ""
    """The environment variable that replaces the address, if it has an unusual name."""

    def family_at(self, base_url: str) -> Family:
        """Return the family of an address; ``""`` stands for the default address.

        >>> [PROVIDERS["Ollama"].family_at(f"http://localhost:11434{path}") for path in ("", "/v1")]
        ['ollama', 'openai']
        """
        path = _PATH.sub("", base_url.partition("?")[0].rstrip("/"))
        if not base_url or not self.compatible_path:
            return self.family
        if path.endswith(self.compatible_path):
            return "openai"
        return self.own_family if path in _OWN_PATHS else self.family

    @property
    def required_variable(self) -> str:
        """The environment variable that says where its server is, if there is no default."""
        return "AWS_REGION" if self.family == "bedrock" else self.address_variable

    @property
    def address_variable(self) -> str:
        """The environment variable that replaces the address, such as ``OPENAI_BASE_URL``."""
        return self.address_name or f"{self.key.removesuffix('_KEY').removesuffix('_API')}_BASE_URL"


_ALL = "chat embedding rerank"
_DOCUMENTS = "It reads documents. Uploaded files are read by ragflow-lg itself."
_OWN_API = "Its API is not compatible with OpenAI's, and LangChain has no maintained client for it."
_DASHSCOPE = KnownProvider(
    "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "DASHSCOPE_API_KEY",
    f"{_ALL} vision",
    rerank_url="https://dashscope.aliyuncs.com/api/v1/services/rerank/text-rerank",
    rerank_style="dashscope",
)

PROVIDERS: Mapping[str, KnownProvider] = {
    "01.AI": KnownProvider("https://api.lingyiwanwu.com/v1", "LINGYIWANWU_API_KEY", "chat vision"),
    "302.AI": KnownProvider("https://api.302.ai/v1", "AI302_API_KEY", _ALL, rerank_url="https://api.302.ai/jina/v1"),
    "aimlapi.com": KnownProvider("https://api.aimlapi.com/v1", "AIML_API_KEY", "chat embedding vision"),
    "Anthropic": KnownProvider("https://api.anthropic.com", "ANTHROPIC_API_KEY", "chat vision", family="anthropic"),
    "Astraflow": KnownProvider("https://api-us-ca.umodelverse.ai/v1", "ASTRAFLOW_API_KEY", f"{_ALL} speech"),
    "Astraflow-CN": KnownProvider("https://api.modelverse.cn/v1", "ASTRAFLOW_CN_API_KEY", f"{_ALL} speech"),
    "Avian": KnownProvider("https://api.avian.io/v1", "AVIAN_API_KEY"),
    "Azure-OpenAI": KnownProvider(
        "",
        "AZURE_OPENAI_API_KEY",
        "chat embedding vision",
        note="base_url, or AZURE_OPENAI_ENDPOINT, is that of your resource.",
        compatible_path="/openai/v1",
        own_family="azure",
        address_name="AZURE_OPENAI_ENDPOINT",
        family="azure",
    ),
    "BaiChuan": KnownProvider("https://api.baichuan-ai.com/v1", "BAICHUAN_API_KEY", "chat embedding"),
    "BaiduYiyan": KnownProvider("https://qianfan.baidubce.com/v2", "QIANFAN_API_KEY", f"{_ALL} vision"),
    "Bedrock": KnownProvider(
        "",
        "AWS_BEARER_TOKEN_BEDROCK",
        f"{_ALL} vision",
        note="AWS_REGION names the region.",
        rerank_style="bedrock",
        address_name="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        family="bedrock",
    ),
    "Builtin": KnownProvider(note="It is part of RAGFlow. Serve its embedding model by another provider.", family=""),
    "Cohere": KnownProvider(
        "https://api.cohere.ai/compatibility/v1",
        "COHERE_API_KEY",
        _ALL,
        rerank_url="https://api.cohere.com/v2",
        rerank_style="cohere",
    ),
    "CometAPI": KnownProvider("https://api.cometapi.com/v1", "COMETAPI_KEY", "chat embedding speech vision"),
    "Dashscope": _DASHSCOPE,
    "DeepInfra": KnownProvider("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY", "chat embedding vision"),
    "DeepSeek": KnownProvider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "DeerAPI": KnownProvider("https://api.deerapi.com/v1", "DEERAPI_API_KEY", "chat embedding vision"),
    "FastEmbed": KnownProvider(note="It is a library of RAGFlow. Serve its models by another provider.", family=""),
    "Fish Audio": KnownProvider(note=_OWN_API, family=""),
    "FunASR": KnownProvider("http://localhost:8000/v1", "", "transcription"),
    "FuturMix": KnownProvider("https://futurmix.ai/v1", "FUTURMIX_API_KEY", "chat vision"),
    "Gemini": KnownProvider(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "chat embedding vision",
        compatible_path="/openai",
        own_family="google",
    ),
    "GiteeAI": KnownProvider("https://ai.gitee.com/v1", "GITEE_AI_API_KEY", _ALL),
    "Google Cloud": KnownProvider(
        "https://aiplatform.googleapis.com", "GOOGLE_API_KEY", "chat embedding vision", family="google"
    ),
    "GPUStack": KnownProvider("", "GPUSTACK_API_KEY", _ALL, note="base_url is that of your server."),
    "GreenPT": KnownProvider("https://api.greenpt.ai/v1", "GREENPT_API_KEY", _ALL),
    "Groq": KnownProvider("https://api.groq.com/openai/v1", "GROQ_API_KEY", "chat speech transcription vision"),
    "HuaweiCloud": KnownProvider("https://api.modelarts-maas.com/v1", "MAAS_API_KEY", f"{_ALL} vision"),
    "HuggingFace": KnownProvider("https://router.huggingface.co/v1", "HF_TOKEN", "chat vision"),
    "Jiekou.AI": KnownProvider("https://api.jiekou.ai/openai/v1", "JIEKOU_API_KEY", _ALL),
    "Jina": KnownProvider("https://api.jina.ai/v1", "JINA_API_KEY", "embedding rerank"),
    "LeptonAI": KnownProvider("", "LEPTON_API_KEY", note="base_url is that of your deployment."),
    "LM-Studio": KnownProvider("http://localhost:1234/v1", "", "chat embedding vision"),
    "LocalAI": KnownProvider("http://localhost:8080/v1", "", f"{_ALL} speech transcription vision"),
    "LongCat": KnownProvider("https://api.longcat.chat/openai/v1", "LONGCAT_API_KEY"),
    "MinerU": KnownProvider(note=_DOCUMENTS, family=""),
    "MiniMax": KnownProvider("https://api.minimaxi.com/v1", "MINIMAX_API_KEY"),
    "Mistral": KnownProvider("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "chat embedding vision"),
    "Mistral OCR": KnownProvider(note=_DOCUMENTS, family=""),
    "ModelScope": KnownProvider("https://api-inference.modelscope.cn/v1", "MODELSCOPE_API_KEY", "chat vision"),
    "Moonshot": KnownProvider("https://api.moonshot.cn/v1", "MOONSHOT_API_KEY", "chat vision"),
    "MWS": KnownProvider("", "MWS_API_KEY", _ALL, note="base_url is that of your project."),
    "n1n": KnownProvider("https://api.n1n.ai/v1", "N1N_API_KEY", f"{_ALL} vision"),
    "New API": KnownProvider("", "NEW_API_KEY", _ALL, note="base_url is that of your server."),
    "NovitaAI": KnownProvider("https://api.novita.ai/openai/v1", "NOVITA_API_KEY", _ALL),
    "NVIDIA": KnownProvider(
        "https://integrate.api.nvidia.com/v1",
        "NVIDIA_API_KEY",
        f"{_ALL} vision",
        rerank_url="https://ai.api.nvidia.com/v1/retrieval",
        rerank_style="nvidia",
    ),
    "Ollama": KnownProvider(
        "http://localhost:11434/v1", "", "chat embedding vision", compatible_path="/v1", own_family="ollama"
    ),
    "OpenAI": KnownProvider(
        "https://api.openai.com/v1", "OPENAI_API_KEY", "chat embedding speech transcription vision"
    ),
    "OpenAI-API-Compatible": KnownProvider(
        "", "", f"{_ALL} speech transcription vision", note="base_url is that of your server."
    ),
    "OpenDataLoader": KnownProvider(note=_DOCUMENTS, family=""),
    "OpenRouter": KnownProvider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "chat vision"),
    "OrcaRouter": KnownProvider("https://api.orcarouter.ai/v1", "ORCAROUTER_API_KEY", "chat speech"),
    "PaddleOCR": KnownProvider(note=_DOCUMENTS, family=""),
    "PerfXCloud": KnownProvider("https://cloud.perfxlab.cn/v1", "PERFXCLOUD_API_KEY", "chat embedding"),
    "Perplexity": KnownProvider("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "PPIO": KnownProvider("https://api.ppio.com/openai/v1", "PPIO_API_KEY", _ALL),
    "Qiniu": KnownProvider("https://api.qnaigc.com/v1", "QINIU_API_KEY", "chat vision"),
    "RAGcon": KnownProvider("https://connect.ragcon.com/v1", "RAGCON_API_KEY", f"{_ALL} speech transcription"),
    "Replicate": KnownProvider(note=_OWN_API, family=""),
    "SILICONFLOW": KnownProvider(
        "https://api.siliconflow.cn/v1", "SILICONFLOW_API_KEY", f"{_ALL} speech transcription vision"
    ),
    "siliconflow_intl": KnownProvider("https://api.siliconflow.com/v1", "SILICONFLOW_INTL_API_KEY", f"{_ALL} vision"),
    "SoMark": KnownProvider(note=_DOCUMENTS, family=""),
    "StepFun": KnownProvider("https://api.stepfun.com/v1", "STEPFUN_API_KEY", "chat speech vision"),
    "Tencent Cloud": KnownProvider(note=_OWN_API, family=""),
    "Tencent Hunyuan": KnownProvider(
        "https://api.hunyuan.cloud.tencent.com/v1", "HUNYUAN_API_KEY", "chat embedding vision"
    ),
    "TogetherAI": KnownProvider("https://api.together.xyz/v1", "TOGETHER_API_KEY", f"{_ALL} speech vision"),
    "TokenHub": KnownProvider("https://aitok.cc/v1", "TOKENHUB_API_KEY", "chat embedding vision"),
    "TokenPony": KnownProvider("https://api.tokenpony.cn/v1", "TOKENPONY_API_KEY"),
    "Tongyi-Qianwen": _DASHSCOPE,
    "Upstage": KnownProvider("https://api.upstage.ai/v1", "UPSTAGE_API_KEY", "chat embedding"),
    "VLLM": KnownProvider("http://localhost:8000/v1", "", f"{_ALL} vision"),
    "VolcEngine": KnownProvider("https://ark.cn-beijing.volces.com/api/v3", "ARK_API_KEY", "chat embedding vision"),
    "Voyage AI": KnownProvider(
        "https://api.voyageai.com/v1", "VOYAGE_API_KEY", "embedding rerank", rerank_style="voyage"
    ),
    "xAI": KnownProvider("https://api.x.ai/v1", "XAI_API_KEY", "chat vision"),
    "Xiaomi": KnownProvider("https://api.xiaomimimo.com/v1", "XIAOMI_API_KEY"),
    "Xinference": KnownProvider("http://localhost:9997/v1", "", f"{_ALL} speech transcription vision"),
    "XunFei Spark": KnownProvider("https://spark-api-open.xf-yun.com/v1", "SPARK_API_KEY"),
    "ZHIPU-AI": KnownProvider("https://open.bigmodel.cn/api/paas/v4", "ZHIPUAI_API_KEY", f"{_ALL} speech vision"),
}
"""By name. RAGFlow compares names exactly, here their case does not matter."""

_BY_LOWER_NAME = {name.lower(): (name, provider) for name, provider in PROVIDERS.items()}


def find_provider(name: str) -> tuple[str, KnownProvider] | None:
    """Return a provider with its name, ignoring case.

    >>> find_provider("deepseek")[1].key
    'DEEPSEEK_API_KEY'
    """
    return _BY_LOWER_NAME.get(name.lower())


def provider_of_model(id_: str) -> tuple[str, KnownProvider] | None:
    """Return the provider that the id of a model names, as in ``bge-m3@SILICONFLOW`` or ``m@work@OpenAI#acme``."""
    return find_provider(id_.rpartition("@")[2].partition("#")[0]) if "@" in id_ else None
