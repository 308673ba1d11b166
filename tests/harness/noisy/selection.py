"""The attacks that are played unless others are named: each kind, and each that has ever delayed a neighbour.

They are as many as can be played for half a minute each in 40 minutes.
"""

_NAMES = """
list-16mb empty-lists many-keys deep-objects long-query long-number openai-messages no-key-native
hook-list hook-form
jinja-rfind jinja-strip jinja-ranges jinja-sorts jinja-many
split-delimiters contains switch-items assign-many growth-text update-maps literal-f json-paths message-text
references sort-list
check-chain draw-png save-large run-fan cycle loop-nest schema
pdf-operators xlsx-far-cells docx-deep html-deep json-numbers text-lines
half-heads unread-streams small-chunks churn
turns embedded-long-turns background-runs invented-keys sign-ins fetches
one-session large-turns history-pages forks replays cancels replaced-agents
model-endless model-empty-pieces model-think-tags model-gzip web-endless web-html-cleaned tool-calls
mcp-call-hangs
"""
SELECTED = frozenset(_NAMES.split())
