"""Lateness: whose frame is out of time, and whom Charlie may name for it.

A party is late if its own clock has run out. But it may wait for another one, which is late as well. Each party's beats
say for whom it waits, and nobody can check that. So a party is named only if everything leads to it.
"""

from collections.abc import Collection, Mapping

from masquerade_core.study import CHARLIE
from masquerade_host.session.hop import Hop, Hops
from masquerade_host.session.session import Allowance

__all__ = ["Lateness", "whom_all_wait_for"]


class Lateness:
    """Charlie's judgement of who is late.

    Parameters
    ----------
    hops : Hops
    allowance : Allowance
    """

    def __init__(self, hops: Hops, allowance: Allowance) -> None:
        self._hops = hops
        self._allowance = allowance

    def find(
        self, missing: Collection[str], own: Collection[str], began: float, now: float, share: float = 1.0
    ) -> tuple[set[str], tuple[str, ...]]:
        """Return who is late of those for whom others wait, beginning with ``missing``; and who is named for it.

        Parameters
        ----------
        missing : collection of str
        own : collection of str
            For whom Charlie's role waits.
        began : float
            When this wait began; nobody is late before.
        now : float
        share : float
            The part of its time that a late participant has used up.
        """
        there = self._hops.there
        late = {hop.name for hop in there if missing and self._is_late(hop, began, now, share)}
        if not late:
            return late, ()
        waits = {hop.name: tuple(name for name in hop.waits_for if name != CHARLIE) for hop in there}
        late &= whom_all_wait_for(missing, waits)
        # A party that says that another owes it something may be right. And one that says that it waits for Charlie
        # alone owes him nothing that he knows of, unless his role waits for it.
        sure = {name for name in late if not waits[name] and (name in own or not self._hops[name].waits_for)}
        return late, tuple(name for name in self._hops if name in sure)

    def _is_late(self, hop: Hop, began: float, now: float, share: float) -> bool:
        """Say whether a party's next frame is out of time, or its word that it has what it was sent."""
        allowed = self._allowance.frame if hop.channel.all_acknowledged else self._allowance.delivery
        return now - max(hop.moved, began) > share * allowed


def whom_all_wait_for(missing: Collection[str], waits: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Follow who waits for whom to those at the end: who waits for nobody, and circles that wait for each other.

    Parameters
    ----------
    missing : collection of str
        Whom the question begins with.
    waits : mapping of str to collection of str
        Whom each participant waits for, by its own word.

    Returns
    -------
    frozenset of str
        Everybody at an end that can be reached from ``missing``. All members of a circle are at an end if nobody in it
        waits for anybody outside.
    """
    reached = {name: _reached(name, waits) for name in _reached_from(missing, waits)}
    return frozenset(name for name, others in reached.items() if all(name in reached[other] for other in others))


def _reached(name: str, waits: Mapping[str, Collection[str]]) -> frozenset[str]:
    return _reached_from(waits.get(name, ()), waits)


def _reached_from(names: Collection[str], waits: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return these, all whom they wait for, all whom those wait for, and so on."""
    seen, frontier = set[str](), list(names)
    while frontier:
        if (name := frontier.pop()) not in seen:
            seen.add(name)
            frontier.extend(waits.get(name, ()))
    return frozenset(seen)
