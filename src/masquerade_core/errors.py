"""Every way a run can end badly: a sentence for a person and an exit code for a script.

Two kinds by whose fault: what a *peer* did (:class:`ProtocolViolation`) and what *this* program did
(:class:`LocalProtocolError`, a bug). All others speak of the world: files, networks, clocks, policies.
An error's text is read by people and may be logged, so it never carries a record, a size or a key.
"""

from typing import ClassVar

__all__ = [
    "BadInput",
    "BudgetExceeded",
    "CannotConnect",
    "DeadlinePassed",
    "LocalProtocolError",
    "MasqueradeError",
    "ProtocolViolation",
    "RefusedLocally",
    "RunFailed",
]


class MasqueradeError(Exception):
    """An error with a sentence, a hint and an exit code.

    Parameters
    ----------
    message : str
        What was seen and what is allowed, as one sentence.
    hint : str
        What to do about it; empty where the message says it.
    """

    exit_code: ClassVar[int] = 5
    error_code: ClassVar[str] = "bug"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RunFailed(MasqueradeError):
    """The run ended without a result, for a reason that its text names."""

    exit_code = 1
    error_code = "run_failed"


class CannotConnect(MasqueradeError):
    """Charlie cannot be reached, or does not admit this key."""

    exit_code = 2
    error_code = "cannot_connect"


class DeadlinePassed(MasqueradeError):
    """Somebody was silent for longer than the study's ``deadline_seconds``.

    Parameters
    ----------
    message : str
        The sentence; it names who was waited for.
    waited_for : tuple of str
        The names of the silent participants.
    """

    exit_code = 3
    error_code = "deadline_passed"

    def __init__(self, message: str, hint: str = "", *, waited_for: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.waited_for = waited_for


class BadInput(MasqueradeError):
    """A file, an option or a study that cannot be used as it is; nothing was sent."""

    exit_code = 4
    error_code = "bad_input"


class LocalProtocolError(MasqueradeError):
    """This program broke its own rules (a bug): it stopped before anything left the process."""

    exit_code = 5
    error_code = "bug"


class RefusedLocally(MasqueradeError):
    """The local policy says no: too few records, or an approval that was not given."""

    exit_code = 6
    error_code = "refused_locally"


class BudgetExceeded(MasqueradeError):
    """The release would cost more privacy than this data set has left."""

    exit_code = 7
    error_code = "budget_exceeded"


class ProtocolViolation(MasqueradeError):
    """A participant sent what the protocol does not allow.

    The error says what is known of whose fault that is, and no more: at most one of ``peer`` and ``suspects`` is set.

    Parameters
    ----------
    message : str
        What was seen and what is allowed.
    peer : str
        The participant whose fault it is: what it signed, or sent over its own connection, proves it. It may still be
        the fault of whoever holds its key. Empty where nobody is proved to be at fault.
    suspects : tuple of str
        The participants of whom one is at fault, where nobody can tell which.
    said_by : str
        The participant who reported it. Then ``peer`` and ``suspects`` are that participant's word, which was not
        checked here. Empty where this participant checked it.
    """

    exit_code = 8
    error_code = "protocol_violation"

    def __init__(
        self, message: str, hint: str = "", *, peer: str = "", suspects: tuple[str, ...] = (), said_by: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.peer = peer
        self.suspects = suspects
        self.said_by = said_by
