"""Roster disclosure: the part of the roster that a party is shown, and the parties whose last words it gets.

The *roster* is the list of all parties with their signed hellos. In a small study everybody is shown all of it. In a
large one that would be K hellos for each of K parties. There a party is shown the root of a Merkle tree over all hellos
(:mod:`masquerade_core.wire.merkle`), its own hello, those of its neighbours (:mod:`masquerade_core.neighbours`), and
that of the roster's first party, each with its path. The first party is shown all hellos, since it whispers the key of
the check values to everybody.

Charlie, the curator, cannot show two parties two trees. The run's id is a hash of what bears the root, and all labels
of masks follow from it. So parties with two roots are in two runs, and nothing of one opens in the other.
"""

import hashlib

from masquerade_core.neighbours import NEIGHBOURS, neighbours_of
from masquerade_core.study import Study

__all__ = ["asked_by", "closes_with_all", "coin_of", "heard_by", "shown_to", "shows_all"]


def shows_all(study: Study) -> bool:
    """Say whether every party of a study is shown the whole roster.

    It is where all parties are neighbours, and where sums are not made by masks. It is also where the study has
    ``[dropouts]``: with retries every set has a graph of its own, so everybody may become anybody's neighbour, and
    double masks need more neighbours and a committee.
    """
    return study.K <= NEIGHBOURS + 1 or study.crypto.sum != "masks" or study.dropouts is not None


def closes_with_all(study: Study) -> bool:
    """Say whether every party is shown every other party's last word, and asks all others after a restart.

    Without ``[dropouts]`` the words of its neighbours are enough (:mod:`masquerade_host.session.agreement`
    says why). With it they are not: Charlie could say that the right parties are lost, until the graph of the others
    falls apart.
    """
    return study.K <= NEIGHBOURS + 1 or study.dropouts is not None


def coin_of(run: bytes, root: bytes) -> bytes:
    """Return the coin of a run that draws everybody's neighbours; ``root`` is that of the tree over all hellos."""
    return hashlib.blake2b(run + root, digest_size=32, person=b"masq roster").digest()


def shown_to(study: Study, coin: bytes, me: str) -> tuple[str, ...]:
    """Return whose hellos a party is shown, in roster order, itself included."""
    first = study.names[0]
    if shows_all(study) or me == first:
        return study.names
    return _in_order(study, {first, me, *neighbours_of(coin, study.names, me)})


def heard_by(study: Study, coin: bytes, me: str) -> tuple[str, ...]:
    """Return whose last words of the run a party is shown, in roster order, itself included."""
    return study.names if closes_with_all(study) else _in_order(study, {me, *neighbours_of(coin, study.names, me)})


def asked_by(study: Study, coin: bytes, me: str) -> tuple[str, ...]:
    """Return whom a party asks where they stand after it was started again, in roster order."""
    return tuple(name for name in heard_by(study, coin, me) if name != me)


def _in_order(study: Study, names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=study.place_of.__getitem__))  # without a walk over all parties
