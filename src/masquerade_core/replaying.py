"""The journal of a role, and its replay: the same role again, with the answers that it got.

A role draws and learns nothing but through its seat. So the list of its effects and their answers determines what it
sends. A replay runs the role a second time and checks that it asks for the same and sends the same bytes.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade_core.errors import LocalProtocolError
from masquerade_core.seat import Effect, Once, Send
from masquerade_core.wire.codec import unpack_plain

__all__ = ["Entry", "Replay", "as_received", "replay"]

Role = Coroutine[Effect, Any, Any]


@dataclass(frozen=True)
class Entry:
    """One effect of a role and its answer; a result of ``once`` is kept as packed bytes."""

    effect: Effect
    answer: Any


def as_received(effect: Effect | None, answer: Any) -> Any:
    """Return a stored answer in the form in which the role receives it."""
    return unpack_plain(answer) if isinstance(effect, Once) else answer


@dataclass(frozen=True)
class Replay:
    """The messages and the result of a role that was run again."""

    sent: tuple[Send, ...]
    result: Any


def replay(role: Role, journal: Sequence[Entry]) -> Replay:
    """Run a role again with the answers of its journal, so that nothing is drawn anew.

    Raises
    ------
    LocalProtocolError
        The role asked for something else than the first time, or would send other bytes. Such a role depends on
        something besides its seat: a clock, a source of randomness of its own, or data from another run.
    """
    sent: list[Send] = []
    answer: Any = None
    try:
        for number, entry in enumerate(journal):
            effect = _step(role, answer, number)
            if not _same(effect, entry.effect):
                msg = f"step {number} of a replay is {effect!r:.60} where the run had {entry.effect!r:.60}"
                raise LocalProtocolError(msg)
            if isinstance(effect, Send):
                sent.append(effect)
            answer = as_received(entry.effect, entry.answer)
        try:
            role.send(answer)
        except StopIteration as stop:
            return Replay(tuple(sent), stop.value)
        msg = "a replay asked for more after the step with which the run had ended"
        raise LocalProtocolError(msg)
    finally:
        role.close()


def _step(role: Role, answer: Any, number: int) -> Effect:
    try:
        return role.send(answer)
    except StopIteration:
        msg = f"a replay ended before step {number}, although the run had gone on"
        raise LocalProtocolError(msg) from None


def _same(a: Effect, b: Effect) -> bool:
    if isinstance(a, Once) and isinstance(b, Once):
        return a.label == b.label
    return a == b
