"""A noisy neighbour: one tenant attacks a server while another takes ordinary turns.

``python -m tests.campaigns noisy`` starts real servers, plays the attacks of `attacks`, and measures what the other
tenant notices.
"""
