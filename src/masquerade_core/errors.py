"""Every way in which a run can fail: a sentence for a person and an exit code for a script.

A :class:`ProtocolViolation` is another participant's fault. A :class:`LocalProtocolError` is a bug of this program. All
others are about files, networks, deadlines and policies. People read an error's text, and it may be logged. So it never
contains a record, a party's number of records or a key.

An error that names other participants has one of four :class:`Grounds`, which say what it proves and what it does not.
An error that ended a run may carry a note of the privacy budget that the run had spent by then (:class:`Spent`).
"""

from enum import Enum
from typing import ClassVar

__all__ = [  # the errors alone; what one of them carries is imported by its name
    "BadInput",
    "BudgetExceeded",
    "CannotConnect",
    "ClaimRefuted",
    "Damaged",
    "DeadlinePassed",
    "LocalProtocolError",
    "MasqueradeError",
    "OlderCopy",
    "ProgramChanged",
    "ProtocolViolation",
    "RefusedLocally",
    "Reported",
    "RunFailed",
    "StateCopied",
    "SumRefused",
]


# --- What an error proves ---------------------------------------------------------------------

COPIES = (
    "this attempt is over, and nobody is at fault for it. Leave one process that uses this state folder, keep the "
    "folder out of backups, and start the run again, with everybody"
)
"""The hint for a state folder that was copied."""

NAMING = ("waited_for", "peer", "suspects", "copied", "said_by", "accused")
"""The attributes in which errors name participants."""


class Grounds(Enum):
    """On what an error names other participants: four kinds, each with what it proves and what it does not.

    Attributes
    ----------
    proves : str
        What such an error proves, as a sentence.
    proves_not : str
        What it does not prove.
    """

    CHECKED = (
        "checked here",
        "The named one sent, signed or over its own connection, what the protocol does not allow: it was checked here.",
        "It does not show who used the key, or whether it was malice or a fault of the program.",
    )
    SAID = (
        "said by another",
        "Another participant, whom the error names as well, says so.",
        "It was not checked here: the participant that says so may be wrong, or may lie.",
    )
    SILENT = (
        "not answered in time",
        "What was waited for did not arrive before the deadline.",
        "It does not show whose fault that is: the silent participant's, the network's, or the reporter's.",
    )
    UNTOLD = (
        "cannot be told",
        "Somebody broke the protocol, or a state was copied; where the error names suspects, it was one of them.",
        "It does not show which of them, and nothing that this participant holds does.",
    )

    def __init__(self, words: str, proves: str, proves_not: str) -> None:
        self.words = words
        self.proves = proves
        self.proves_not = proves_not


# --- Errors ----------------------------------------------------------------------


class MasqueradeError(Exception):
    """An error with a sentence, a hint and an exit code.

    Parameters
    ----------
    message : str
        One sentence: what was seen, and what is allowed.
    hint : str
        What to do about it; empty where the message says so already.

    Attributes
    ----------
    grounds : Grounds or None
        On what the error names other participants; None where it names nobody.
    """

    exit_code: ClassVar[int] = 5
    error_code: ClassVar[str] = "bug"
    grounds: Grounds | None = None

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RunFailed(MasqueradeError):
    """The run ended without a result; the message gives the reason."""

    exit_code = 1
    error_code = "run_failed"


class Damaged(RunFailed):
    """This machine's record of a run, or of its budget, is damaged. That is nobody's fault."""


class SumRefused(RunFailed):
    """A secure sum is not the sum of everybody's contributions; signed messages may show later who is at fault."""

    grounds = Grounds.UNTOLD


class StateCopied(RunFailed):
    """A participant's state folder is an old copy, or was used by two processes: an accident, and nobody's guilt.

    Parameters
    ----------
    message : str
        What was seen.
    hint : str
        What to do about it.
    copied : tuple of str
        Whose state it may be.
    said_by : str
        Who says so; empty where this participant saw it.
    frames : tuple of bytes
        The signed frames in which it was seen.
    """

    grounds = Grounds.UNTOLD

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        copied: tuple[str, ...] = (),
        said_by: str = "",
        frames: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(message, hint)
        self.copied = copied
        self.said_by = said_by
        self.frames = frames


class Reported(RunFailed):
    """Another participant ended the run and accuses somebody; nothing that this participant holds shows it.

    It accuses nobody: its ``peer`` does not exist, and its exit code is that of a run that failed.

    Parameters
    ----------
    message : str
        One sentence: who says what of whom, and that it was not checked.
    hint : str
        What to do about it.
    said_by : str
        Whose word it is.
    accused : tuple of str
        Whom that participant accuses: one name, several of whom one is meant, or none.
    frames : tuple of bytes
        The signed frame in which it says so.
    """

    grounds = Grounds.SAID

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        said_by: str = "",
        accused: tuple[str, ...] = (),
        frames: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(message, hint)
        self.said_by = said_by
        self.accused = accused
        self.frames = frames


class ClaimRefuted(Reported):
    """Another participant ended the run because somebody was late, and what this participant knows contradicts that.

    It names nobody but its author.
    """


class CannotConnect(MasqueradeError):
    """Charlie, the server of the study, cannot be reached or does not admit this participant's key."""

    exit_code = 2
    error_code = "cannot_connect"


class DeadlinePassed(MasqueradeError):
    """A participant was silent for too long, or did not send in time what was due.

    Parameters
    ----------
    message : str
        One sentence that names these participants.
    hint : str
        What to do about it.
    waited_for : tuple of str
        Their names; none where nobody can tell whose fault it is.
    said_by : str
        The participant whose clock it was; empty where it was this one's.
    """

    exit_code = 3
    error_code = "deadline_passed"
    grounds = Grounds.SILENT

    def __init__(self, message: str, hint: str = "", *, waited_for: tuple[str, ...] = (), said_by: str = "") -> None:
        super().__init__(message, hint)
        self.waited_for = waited_for
        self.said_by = said_by
        self.grounds = Grounds.SILENT if waited_for else Grounds.UNTOLD


class BadInput(MasqueradeError):
    """A file, an option or a study cannot be used as it is; nothing that depends on a record was sent."""

    exit_code = 4
    error_code = "bad_input"


class LocalProtocolError(MasqueradeError):
    """This program broke one of its own rules, which is a bug; it stopped before it sent anything."""

    exit_code = 5
    error_code = "bug"


class RefusedLocally(MasqueradeError):
    """A rule of this participant forbids the run: there are too few records, or nobody has approved the study."""

    exit_code = 6
    error_code = "refused_locally"


class OlderCopy(RefusedLocally):
    """This machine's record of its budget is an older copy, or lacks its end: later spending is not in it."""


class ProgramChanged(RefusedLocally):
    """This participant's program is not the one with which its attempt at a study began."""


class BudgetExceeded(MasqueradeError):
    """A study or a release costs more than the privacy budget of this machine has left, or there is no budget."""

    exit_code = 7
    error_code = "budget_exceeded"


class ProtocolViolation(MasqueradeError):
    """A participant sent what the protocol does not allow, and this participant has checked it.

    The error says only what is known about whose fault this is: at most one of ``peer`` and ``suspects`` is set.

    Parameters
    ----------
    message : str
        What was seen and what is allowed.
    hint : str
        What to do about it.
    peer : str
        The participant at fault, as its signature or its own connection proves. Somebody else may have used its key.
        Empty where nobody's fault is proved.
    suspects : tuple of str
        Participants one of whom is at fault, where nothing shows which one.
    frames : tuple of bytes
        The frames in which it was seen, as they were signed. Where they prove the fault to everybody else as well
        (:mod:`masquerade_core.wire.faults`), they go to the others; they are kept as evidence in any case.
    """

    exit_code = 8
    error_code = "protocol_violation"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        peer: str = "",
        suspects: tuple[str, ...] = (),
        frames: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(message, hint)
        self.peer = peer
        self.suspects = suspects
        self.frames = frames
        self.grounds = Grounds.CHECKED if peer else Grounds.UNTOLD


# --- The budget that was spent -----------------------------------------------------------------------


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
