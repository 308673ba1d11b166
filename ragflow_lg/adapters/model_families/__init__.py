"""Model APIs that are not compatible with OpenAI's, through LangChain's packages: one file per family.

A family creates the LangChain clients of one endpoint, gives them HTTP clients with limits, and knows the names of
request options. May import `base`, `services` and `adapters.http`; client libraries are imported on first use.
"""
