"""RAGFlow's run events, their order, and the text of an answer.

May import: `component`, `services`, `dsl`, `base`.
"""
