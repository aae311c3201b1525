"""The privacy budget that a run spent although it failed, as a note on the error that ended it."""

__all__ = ["Spent", "with_spent"]


class Spent(str):
    """A note on the error that ended a run: it says what had left this process by then, and contains no secret.

    It is attached with ``add_note``, so that any exception can carry it.
    """

    __slots__ = ()


def with_spent(message: str, error: BaseException) -> str:
    """Return an error's message, followed by its :class:`Spent` notes.

    Other notes are left out, since they may contain what not everybody may read.
    """
    return "; ".join((message, *(note for note in getattr(error, "__notes__", ()) if isinstance(note, Spent))))
