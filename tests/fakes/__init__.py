"""Fakes and helpers for tests, without patching. They may import every package, but no test module.

- ``agents``: play one turn of an agent with a scripted model and scripted tools.
- ``agent_tools``: tools without a service: a look-up, a sum, a slow one, a failing one, one that creates files.
- ``canvas``: small canvas documents, their plans and diagnostics.
- ``cut_proxy``: a TCP proxy whose connections can be cut and restored.
- ``elasticsearch``: an HTTP server that executes our Elasticsearch requests over given documents.
- ``embedded``: embedded knowledge bases with a few texts, and counting embedders.
- ``http_server``: an HTTP/1.1 server with fixed routes that records its requests.
- ``knowledge``: a knowledge store with given chunks that records its searches.
- ``knowledge_models``: deterministic embedding and rerank models.
- ``mcp_server``: a real MCP server, built with the SDK, as a program.
- ``mcp_servers``: settings and processes of the two MCP servers, and an in-memory one.
- ``mcp_stdio``: a minimal, misbehaving MCP server over stdio, as a program.
- ``mock_llm``: the server of ``ragflow-lg mock-llm`` in this process.
- ``policies``: catalogs with functions as tools, deployments with canvases, and guards.
- ``python_process``: a Python program in another process that exchanges lines with the test.
- ``query_strings``: a parser and matcher for Elasticsearch's ``query_string``.
- ``recorded_tokenizer``: a tokenizer with recorded results of RAGFlow's.
- ``recordings``: record and replay a turn.
- ``redis_process``: a Redis server that can be killed and started again with the data that it has stored.
- ``regions``: Loops, Iterations and forms, and playing a turn.
- ``run``: run one component through the real node wrapper.
- ``scripted_run``: a run that yields scripted events.
- ``services``: services with a fixed clock, counted ids, scripted models and scripted HTTP.
- ``strategy_scripts``: one solution of a task as the replies of each agent strategy.
- ``tools``: run tools over scripted HTTP answers or a local server.
- ``worker_tasks``: tasks for worker processes, one for each limit.
- ``windows``: the command line in a process without what Windows lacks.
"""
