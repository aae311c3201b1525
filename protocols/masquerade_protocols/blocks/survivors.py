"""Which parties take part in the masked sums of a run that may lose some, and the rules that each party enforces.

A party may fall silent. Where the study has ``[dropouts]``, Charlie then names those who remain, U', and asks them for
new contributions. Whether a party is really silent, nobody else can tell. Charlie may hold all contributions and claim
that party i is gone. Then he has a sum over U and one over U without i. Three things make the lie worth no more than
what it costs:

* *Fresh noise.* A contribution that is made again carries noise that never served. So the difference of both sums is
  that of two releases, and not one party's vector under one share of noise.
* *A price that is paid.* The noise of a run is sized for R more sums than it needs, all of the dearest kind.
* *Rules.* Every honest party keeps those of :meth:`Survivors.after`. They need nobody's agreement on who is gone.

Parties that were told different sets made different labels, so their masks do not cancel. A sum opens over one set that
all its members saw, with at least ``min_survivors`` of them.

Whoever is out stays out. N, the number of all records, is not counted again: two exact counts would show the size of
whoever left. So a sum over those who remain is read as if the others' records had contributed zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from masquerade_core.crypto.masks import tagged_hash
from masquerade_core.errors import ProtocolViolation, RunFailed
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.messages import Broadcast, Name
from masquerade_core.words import counted, listed
from masquerade_protocols.blocks.sum_messages import Round

__all__ = ["Outcome", "Survivors", "whose_noise"]


def whose_noise(study: Study) -> str:
    """Return whose noise a sum carries: what follows "the noise of"."""
    if study.dropouts is None:
        return f"all {study.K} parties"
    return f"{study.survivors} of the {study.K} parties at least"


class Outcome(Broadcast):
    """Charlie to all, where the study has ``[dropouts]``: a sum, or that it is made again.

    ``members`` are those who take part in what comes next. Where a sum is made again, the other fields are empty.
    """

    round: Round
    words: bytes
    check: bytes
    receipt: bytes
    members: tuple[Name, ...]

    @classmethod
    def to_make_again(cls, round_: int, left: "Survivors") -> "Outcome":
        """Return Charlie's request for new contributions from those who are left."""
        return cls(round=round_, words=b"", check=b"", receipt=b"", members=left.members)

    @property
    def again(self) -> bool:
        """Whether the sum is made again, by ``members`` alone."""
        return not self.words


@dataclass(frozen=True)
class Survivors:
    """Those who take part, as one participant sees it.

    Parameters
    ----------
    members : tuple of str
        U, in roster order.
    fewest : int
        s, how many there must be.
    retries : int
        How many sums may still be made again.
    """

    members: tuple[str, ...]
    fewest: int
    retries: int

    @classmethod
    def of(cls, study: Study) -> "Survivors":
        """Return how a run begins: with all parties."""
        return cls(study.names, study.survivors, study.retries)

    @cached_property
    def digest(self) -> bytes:
        """A hash of the members; it is made once for a set, since every label has it. Names hold no spaces."""
        return tagged_hash("members", " ".join(self.members).encode())

    def after(self, outcome: Outcome, me: str) -> "Survivors":
        """Return who takes part after what Charlie told, once the rules are checked.

        Parameters
        ----------
        outcome : Outcome
        me : str
            The party that checks.

        Raises
        ------
        ProtocolViolation
            Charlie's fault: he names somebody who did not take part before, or names a party twice, or names fewer than
            the study's ``min_survivors``, or asks for more retries than the study allows.
        RunFailed
            The others go on without this party.
        """
        self._check_named(outcome.members)
        self._check_enough(outcome.members)
        self._check_retries(outcome)
        self._check_own(outcome.members, me)
        return replace(self, members=outcome.members, retries=self.retries - outcome.again)

    def _check_named(self, named: tuple[str, ...]) -> None:
        there = set(named)
        if named != self.members and named != tuple(name for name in self.members if name in there):
            raise ProtocolViolation(
                "Charlie names parties for the next sum that are not a part of those before, each once and in the "
                "roster's order",
                peer=CHARLIE,
            )

    def _check_enough(self, named: tuple[str, ...]) -> None:
        if len(named) < self.fewest:
            raise ProtocolViolation(
                f"Charlie asks for a sum of {counted(len(named), 'party', 'parties')}; the study's min_survivors "
                f"allows {self.fewest} or more",
                peer=CHARLIE,
            )

    def _check_retries(self, outcome: Outcome) -> None:
        if outcome.again and not self.retries:
            raise ProtocolViolation(
                "Charlie asks for one sum more to be made again than the study's retries allow", peer=CHARLIE
            )

    def _check_own(self, named: tuple[str, ...], me: str) -> None:
        if me not in named:
            raise RunFailed(
                "the run goes on without this party: Charlie had no contribution of it in time",
                "start a new run, or give the study a longer patience_seconds",
            )

    def without(self, silent: Sequence[str]) -> "Survivors":
        """Return who is left for Charlie to ask again.

        Raises
        ------
        RunFailed
            Too few are left, or no retry is.
        """
        gone = set(silent)
        left = tuple(name for name in self.members if name not in gone)
        verb = "no longer answers" if len(silent) == 1 else "no longer answer"
        if not self.retries:
            raise RunFailed(
                f"{listed(list(silent))} {verb}, and the run has used all its retries",
                "start a new run, or allow more retries under [dropouts]",
            )
        if len(left) < self.fewest:
            raise RunFailed(
                f"{listed(list(silent))} {verb}, which leaves {counted(len(left), 'party', 'parties')}; the study's "
                f"min_survivors asks for {self.fewest}",
                "start a new run when all parties can take part",
            )
        return replace(self, members=left, retries=self.retries - 1)
