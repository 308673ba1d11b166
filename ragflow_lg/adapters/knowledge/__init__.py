"""What searches and readers of files share: embedding and rerank models, words, texts of files, chunks of documents.

May import `base` and `services`.
"""
