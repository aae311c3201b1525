"""Who deals shares to whom, who answers for a set, and which sets may be opened, in sums under double masks.

Everything here follows from public numbers: the roster, the coin, and the study. Parties are counted in the order of
the roster, from 0. A set of parties travels as bits, so it holds nobody twice.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import LocalProtocolError, ProtocolViolation, RunFailed
from masquerade_core.neighbours import circle_of
from masquerade_core.study import CHARLIE, Study
from masquerade_core.thresholds import Thresholds, thresholds
from masquerade_core.words import counted

__all__ = ["Members", "Ring", "check_set", "has_double_masks", "pack_set", "read_set", "thresholds_of"]

Members = NDArray[np.bool_]
"""A set of parties: for each party of the roster whether it is in the set."""


def has_double_masks(study: Study) -> bool:
    """Whether a study's sums are made under double masks."""
    return study.dropouts is not None and study.dropouts.method == "double-masks"


def thresholds_of(study: Study) -> Thresholds:
    """Return how many neighbours hold shares in this study, and how many open them."""
    found = thresholds(study.K, study.privacy.colluders, study.K - study.survivors)
    if found is None:
        raise LocalProtocolError("a study has too few min_survivors for double masks; its check should have refused it")
    return found


@dataclass(frozen=True)
class Ring:
    """The parties on the coin's circle, and who stands near whom.

    Parameters
    ----------
    coin : bytes
        The run's; nobody knows it before the roster is complete.
    count : int
        K.
    sizes : Thresholds
    """

    coin: bytes
    count: int
    sizes: Thresholds

    @property
    def complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.count <= self.sizes.neighbours + 1

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Which party stands at each place of the circle."""
        return circle_of(self.coin, self.count)

    @cached_property
    def _place(self) -> NDArray[np.intp]:
        place = np.empty(self.count, dtype=np.intp)
        place[self.order] = np.arange(self.count)
        return place

    def neighbours(self, party: int) -> tuple[int, ...]:
        """Return a party's neighbours in roster order. Share x of its secrets is for the x-th, counted from 1."""
        if self.complete:
            return tuple(i for i in range(self.count) if i != party)
        here, half = int(self._place[party]), self.sizes.neighbours // 2
        steps = np.r_[here - half : here, here + 1 : here + half + 1]
        return tuple(np.sort(self.order[steps % self.count]).tolist())

    @cached_property
    def committee(self) -> tuple[int, ...]:
        """Those who answer for the set of a round, in roster order."""
        return tuple(sorted(self.order[: self.sizes.committee].tolist()))

    def near(self, members: Members) -> NDArray[np.int64]:
        """Return how many neighbours in ``members`` each party has. The time grows with K alone, not with k."""
        if self.complete:
            return np.int64(members.sum()) - members.astype(np.int64)
        half = self.sizes.neighbours // 2
        here = members[self.order].astype(np.int64)
        sums = np.r_[0, np.cumsum(np.r_[here[-half:], here, here[:half]])]
        near = np.empty(self.count, dtype=np.int64)
        near[self.order] = sums[2 * half + 1 :] - sums[: -2 * half - 1] - here
        return near


def pack_set(members: Members) -> bytes:
    """Return a set as bits, the first party's in the lowest bit of the first byte."""
    return np.packbits(members, bitorder="little").tobytes()


def read_set(raw: bytes, count: int, peer: str) -> Members:
    """Read a set of ``count`` parties that came from ``peer``.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: another number of bytes, or a bit for a party that does not exist.
    """
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), bitorder="little")
    if len(raw) != (count + 7) // 8 or bits[count:].any():
        raise ProtocolViolation(f"{peer} sent a set of parties that is not one bit for each of {count}", peer=peer)
    return bits[:count].astype(np.bool_)


def check_set(ring: Ring, fewest: int, before: Members, named: Members, me: int, *, exact: bool) -> None:
    """Check that the shares of a round may be shown for this set; every honest party does, and the committee first.

    Parameters
    ----------
    ring : Ring
    fewest : int
        s, the study's ``min_survivors``.
    before : ndarray of bool
        The set of the round before.
    named : ndarray of bool
        The set that Charlie names: those whose contributions are in the sum.
    me : int
        Who checks.
    exact : bool
        Whether the sum carries no noise. Then it loses nobody: two such sums show what is between their sets.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: he names somebody who was out already, or too few parties, or a party so few of whose
        neighbours are in the set that its contribution could be told from the others'. Or he leaves somebody out of a
        sum without noise.
    RunFailed
        The run goes on without this party.
    """
    _check_known(before, named)
    if exact:
        _check_whole(before, named)
    _check_enough(fewest, named)
    _check_surrounded(ring, named)
    if not named[me]:
        raise RunFailed(
            "the run goes on without this party: Charlie had no contribution of it in time",
            "start a new run, or give the study a longer patience_seconds",
        )


def _check_known(before: Members, named: Members) -> None:
    if (named & ~before).any():
        raise ProtocolViolation("Charlie names a party for a sum that was out of the run already", peer=CHARLIE)


def _check_whole(before: Members, named: Members) -> None:
    if (lost := int((before & ~named).sum())) > 0:
        raise ProtocolViolation(
            f"Charlie leaves {counted(lost, 'party', 'parties')} out of a sum without noise, which loses nobody: "
            "with a second such sum he would learn what they contributed",
            peer=CHARLIE,
        )


def _check_enough(fewest: int, named: Members) -> None:
    if (count := int(named.sum())) < fewest:
        raise ProtocolViolation(
            f"Charlie names {counted(count, 'party', 'parties')} for a sum; the study's min_survivors allows "
            f"{fewest} or more",
            peer=CHARLIE,
        )


def _check_surrounded(ring: Ring, named: Members) -> None:
    least = int(ring.near(named)[named].min())
    if least < ring.sizes.threshold:
        raise ProtocolViolation(
            f"Charlie names a set in which a party has {counted(least, 'neighbour')}; allowed are "
            f"{ring.sizes.threshold} or more, so that its contribution cannot be told from the others'",
            peer=CHARLIE,
        )
