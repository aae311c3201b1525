"""How a run ends badly for a party: what it makes of Charlie's refusals and aborts, and of his silence."""

from pathlib import Path

from masquerade_core.errors import (
    BadInput,
    CannotConnect,
    DeadlinePassed,
    MasqueradeError,
    RunFailed,
    StateCopied,
)
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.aborts import Abort
from masquerade_core.wire.proof import Judge
from masquerade_host.session_messages import Refusal
from masquerade_host.verdicts import Known, heard

__all__ = ["ended", "not_confirmed", "refused", "silent", "unanswered"]

_SHOWN = 8  # fields that a sentence names


def refused(refusal: Refusal, study: Study, version: str, me: str, *, seated: bool) -> MasqueradeError:
    """Return the error of a party that Charlie does not let in; ``seated`` says whether it had taken its seat."""
    if seated and refusal.reason == "begun":
        return StateCopied(
            f"another process of {me} has its seat in this run: two processes use copies of one state folder",
            "leave one of them, and never copy a state folder; the run goes on with the other one",
            copied=(me,),
        )
    if seated:
        return RunFailed(
            "Charlie does not know this run any more: he was started again, and has not kept what he knew of it",
            "start the run again, with everybody",
        )
    if refusal.reason == "broken":
        return RunFailed(
            "Charlie refused what this party sent before the run began, and goes on waiting for it",
            "start this party again; if it happens twice, see that nobody else uses this party's key",
        )
    if refusal.reason == "begun":
        return RunFailed(
            "another process of this party has its place in the run, so this one cannot take part",
            "end this one, and leave the other one alone; if it is gone, wait until the run has ended everywhere",
        )
    if refusal.version != version:
        return BadInput(
            f"this program has the numbers {version} of wire and protocol, and Charlie's has {refusal.version}; in "
            "a run all must be equal",
            "install one release of masquerade on all machines",
        )
    where = refusal.differing(study.field_hashes()) or ("a field that this version does not know",)
    shown = ", ".join(where[:_SHOWN]) + (f" and {len(where) - _SHOWN} more" if len(where) > _SHOWN else "")
    return BadInput(
        f"your study differs from Charlie's in: {shown}",
        "take the coordinator's file, or ask the coordinator to correct it",
    )


def ended(abort: Abort, data: bytes, judge: Judge, me: str, known: Known) -> MasqueradeError:
    """Return the error of a party to which Charlie said that the run is over; ``data`` is the frame that said it."""
    if judge.study.dropouts is not None and (abort.reason, abort.blamed, abort.by) == ("left", (me,), CHARLIE):
        return RunFailed(
            "the run goes on without this party: Charlie had nothing of it in time, or something broken",
            "see whether this machine is fast enough; the study's patience_seconds says how long Charlie waits",
        )
    return heard(abort, data, CHARLIE, judge, me, known)


def unanswered(study: Study, deadline: float, *, met: bool) -> MasqueradeError:
    """Return the error of a party that Charlie did not answer; ``met`` says whether he was reached at all."""
    if met:
        return DeadlinePassed(
            f"Charlie at {study.address} did not answer for {deadline:g} seconds",
            "ask the coordinator whether Charlie still runs",
            waited_for=(CHARLIE,),
        )
    return CannotConnect(
        f"Charlie could not be reached at {study.address} within {deadline:g} seconds",
        "ask the coordinator whether Charlie runs, and whether a firewall here forbids this outgoing connection",
    )


def not_confirmed(error: DeadlinePassed, folder: Path, *, again: bool) -> DeadlinePassed:
    """Return the error of a party that keeps its result, and never heard that every party was told the same.

    Parameters
    ----------
    error : DeadlinePassed
        What ended the waiting.
    folder : Path
        Where the result is.
    again : bool
        Whether the same command can still get Charlie's word.
    """
    hint = "compare the folders of all participants: masquerade verify RUN RUN..."
    return DeadlinePassed(
        f"{error.message}. The result is kept in {folder}, but it is not confirmed: nobody has said here that every "
        "party was told the same",
        f"start this party again with the same command, while Charlie still runs, or {hint}" if again else hint,
        waited_for=error.waited_for,
    )


def silent(deadline: float, *, connected: bool) -> DeadlinePassed:
    """Return the error of a party that has heard nothing of Charlie for so long in the middle of a run."""
    if connected:
        return DeadlinePassed(
            f"nothing was heard of Charlie for {deadline:g} seconds",
            "ask the coordinator whether Charlie still runs",
            waited_for=(CHARLIE,),
        )
    return DeadlinePassed(
        f"the connection to Charlie was lost, and for {deadline:g} seconds nobody could be reached at his address",
        "see whether the network here works, and ask the coordinator whether Charlie still runs",
        waited_for=(CHARLIE,),
    )
