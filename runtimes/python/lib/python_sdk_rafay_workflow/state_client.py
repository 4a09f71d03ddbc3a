"""Says to who imports the client of Rafay's state store that there is none."""

from . import StateClientBuilder  # noqa: F401  (raises, with what to do)
