"""Moving in from a running RAGFlow: a folder with its agents, and what differs here and there.

`manifest`, `file_names`, `agent_files`, `agent_changes`, `session_files` and `settings_text` compute only; `folder`
reads and writes the folder; `puller`, `pusher`, `arrival` and `moving_in` do the work. May import everything below
`http`.
"""
