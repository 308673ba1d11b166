"""RAGFlow's run events and the projection of engine events onto them.

May import: `component`, `services`, `dsl`, `base`.
"""
