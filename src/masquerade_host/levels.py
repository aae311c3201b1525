"""How grave the events of a run are, and whether stderr has told of the last one already."""

from enum import StrEnum

__all__ = ["Level", "Logged", "was_logged"]


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


class Logged(str):
    """A note on the error that ended a run: the log on stderr has it, so nobody needs to say it there again."""

    __slots__ = ()


def was_logged(error: BaseException) -> bool:
    """Say whether the log on stderr tells of this error."""
    return any(isinstance(note, Logged) for note in getattr(error, "__notes__", ()))
