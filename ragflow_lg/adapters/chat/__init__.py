"""Chat models: OpenAI-compatible endpoints, LangChain clients of other packages, and the demo model.

May import `base`, `services`, `models` and other adapters; client libraries are imported on first use.
"""
