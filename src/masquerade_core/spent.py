"""What a run that ended badly has cost all the same."""

__all__ = ["Spent", "with_spent"]


class Spent(str):
    """A note (``add_note``) on whatever ended a run: what had left this process by then. It names no secret."""

    __slots__ = ()


def with_spent(message: str, error: BaseException) -> str:
    """Return an error's message, and behind it what had been spent before; other notes may not be for everybody."""
    return "; ".join((message, *(note for note in getattr(error, "__notes__", ()) if isinstance(note, Spent))))
