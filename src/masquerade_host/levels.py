"""How grave the events of a run are."""

from enum import StrEnum

__all__ = ["Level"]


class Level(StrEnum):
    """How grave an event is; a log shows those of its own level and the graver ones."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    def shows(self, other: "Level") -> bool:
        """Say whether a log of this level shows events of the other one."""
        order = tuple(Level)
        return order.index(other) >= order.index(self)
