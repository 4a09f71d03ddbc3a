"""Refuses the import of the client of Rafay's state store, which fnd does not have."""

from . import StateClientBuilder  # noqa: F401  (raises, with what to do)
