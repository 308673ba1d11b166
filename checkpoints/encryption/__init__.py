"""Encryption of what a store keeps, with keys that can be replaced. May import: everything but the backends."""
