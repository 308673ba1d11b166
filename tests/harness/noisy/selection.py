"""The attacks that are played unless others are named: each kind, and each that has ever delayed a neighbour."""

_NAMES = """
list-16mb list-embedded list-native empty-lists many-keys deep-objects long-query long-number many-files
openai-messages multipart-parts no-key-native
hook-list hook-form hook-many-files hook-jwt-claims
jinja-rfind jinja-strip jinja-ranges jinja-sorts jinja-many
split-delimiters contains switch-items assign-many growth-text update-maps literal-f json-paths message-text
references sort-list
check-chain check-dense draw-png save-large run-fan cycle loop-nest iteration-parallel schema
pdf-operators pdf-bomb xlsx-far-cells docx-deep html-deep json-numbers text-lines
half-heads half-bodies unread-streams left-streams small-chunks pipeline churn
turns embedded-long-turns background-runs embedded-uploads invented-keys sign-ins fetches
one-session large-turns history-pages forks replays cancels replaced-agents
model-endless model-empty-pieces model-think-tags model-gzip web-endless web-html-cleaned tool-calls
mcp-call-hangs
"""
SELECTED = frozenset(_NAMES.split())
