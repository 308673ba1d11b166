"""An OpenAI-compatible server that answers by rules: canvases, clients and tests without a model."""
