"""Runs of agents: begun, kept in the database, taken over from dead replicas, controlled."""
