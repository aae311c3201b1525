"""A listener that is Charlie's in all but the run: sites can try the port, the key and the way to it before the day."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE, Study
from masquerade_core.words import counted, listed
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.sockets import CharlieSocket

__all__ = ["rehearse"]

_EVERY = 0.2  # seconds between two looks


def rehearse(
    study: Study,
    keys: Keys,
    say: Callable[[str], None],
    *,
    address: str | None = None,
    over: Callable[[], bool] = lambda: False,
) -> tuple[str, ...]:
    """Listen until every party has proved its key here; return who has, in the study's order.

    What a party sends is dropped unread. Nothing is answered, so a party's process that comes by goes on waiting.

    Parameters
    ----------
    study : Study
    keys : Keys
        Charlie's.
    say : callable
        Takes a line for the spectator.
    address : str, optional
        The address to listen at, if it is not the study's.
    over : callable
        Says whether to end before everybody came.

    Raises
    ------
    BadInput
        These are not Charlie's keys, or he cannot listen there.
    """
    if study.name_of(keys.public) != CHARLIE:
        raise BadInput("only Charlie listens, and this is a party's key", "give the key of the study's [curator]")
    roster = {party.name: party.key.curve for party in study.parties}
    there: set[str] = set()
    with ExitStack() as stack:
        sock = CharlieSocket(address or study.address, keys, roster)
        stack.callback(sock.close, 0)
        say(f"listening at {sock.address}; ask each site for 'masquerade doctor STUDY --key KEY'")
        while len(there) < study.K and not over():
            time.sleep(_EVERY)
            for _ in sock.arrivals():
                pass
            for name in set(sock.admitted()) - there:
                there.add(name)
                missing = [other for other in study.names if other not in there]
                still = f"; {listed(missing)} did not yet" if missing else ""
                say(f"{name} reached this port and proved its key{still}")
            if strangers := sock.denied():
                say(f"{counted(strangers, 'connection')} with a key that is not in the study")
    return tuple(name for name in study.names if name in there)
