"""The roster of a study so large that nobody is shown all of it: a root, and the hellos that each party needs.

The root is that of a Merkle tree over all hellos. Further messages show each party its own hello, those of its
neighbours and the first party's, each with its path (:mod:`masquerade_core.roster_disclosure`).
"""

from collections.abc import Iterator, Sequence

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import BadInput, ProtocolViolation
from masquerade_core.roster_disclosure import closes_with_all, coin_of, shown_to, shows_all
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.merkle import is_under, path_to, root_of, tree_of
from masquerade_core.words import counted
from masquerade_host.session.messages import MOST_AT_ONCE, Hellos, Keys, Reader, Roster

__all__ = ["Shower", "Shown", "check_size"]


def check_size(study: Study) -> None:
    """Check that a study's parties fit into the messages of a session.

    Raises
    ------
    BadInput
        They are too many.
    """
    if study.K > MOST_AT_ONCE and (shows_all(study) or closes_with_all(study)):
        raise BadInput(
            f"the study has {study.K:,} parties; with [dropouts], or with sums under encryption, at most "
            f"{MOST_AT_ONCE:,} may take part, since every party is shown all hellos or all closing frames",
            'remove [dropouts] and set [crypto] sum = "masks", or let fewer parties take part',
        )


class Shower:
    """Charlie's part: he makes the roster, and what shows the parties their hellos.

    Parameters
    ----------
    study : Study
    hellos : sequence of bytes
        As the parties signed them, in roster order.
    """

    def __init__(self, study: Study, hellos: Sequence[bytes]) -> None:
        self._study = study
        self._hellos = tuple(hellos)
        self._all = shows_all(study)
        tree = () if self._all else tree_of(self._hellos)
        self.root = b"" if self._all else tree[-1][0]
        # Made once, for each is shown to all neighbours of its party.
        self._paths = () if self._all else tuple(path_to(tree, place) for place in range(len(self._hellos)))

    def roster(self, box_key: bytes, nonce: bytes, proof: bytes, program: bytes) -> Roster:
        """Return the roster, with Charlie's own key, nonce, proof that the key is his, and hash of his program."""
        hellos = self._hellos if self._all else ()
        return Roster(hellos=hellos, box_key=box_key, nonce=nonce, proof=proof, root=self.root, program=program)

    def shown(self, run: bytes, name: str) -> Iterator[Hellos]:
        """Yield the messages that show a party what the roster does not."""
        names = self._study.names
        if self._all:
            return
        if name == names[0]:
            for at in range(0, len(names), MOST_AT_ONCE):
                yield Hellos(hellos=self._hellos[at : at + MOST_AT_ONCE], paths=())
            return
        places = [self._study.place_of[other] for other in shown_to(self._study, coin_of(run, self.root), name)]
        hellos = tuple(self._hellos[place] for place in places)
        yield Hellos(hellos=hellos, paths=tuple(self._paths[place] for place in places))


class Shown:
    """A party's part: the hellos that it is shown after a roster that has the root alone, until all are there.

    Parameters
    ----------
    run : bytes
        The run id.
    roster, study, study_id, signing, own_hello
        As for :func:`masquerade_host.session.messages.box_keys_of`.
    """

    def __init__(
        self,
        roster: Roster,
        run: bytes,
        study: Study,
        study_id: bytes,
        signing: SigningKey,
        own_hello: tuple[str, bytes],
    ) -> None:
        self.root = roster.root
        self._coin = coin_of(run, roster.root)
        self._charlie = (CHARLIE, roster.box_key)
        self.study = study
        self._me = own_hello[0]
        self._due = shown_to(study, self._coin, self._me)
        self._read: Reader | None = Reader(study, study_id, signing, own_hello, self._due)
        self._hellos: list[bytes] = []
        self._keys: Keys = ()

    @property
    def keys(self) -> Keys:
        """Every shown participant's public box key, Charlie's last; empty until all are there."""
        return self._keys

    def take(self, shown: Hellos) -> None:
        """Take Charlie's next message, and check it.

        Raises
        ------
        ProtocolViolation
            Charlie's fault: he shows a hello that is not under the root at its place, or not one that its party signed
            for this run; or too few, or too many.
        """
        names, first, due, read = self.study.names, self._me == self.study.names[0], self._due, self._read
        self._hellos += shown.hellos
        wrong = len(shown.paths) != (0 if first else len(due)) or not shown.hellos
        if read is None or wrong or len(self._hellos) > len(due) or not (first or len(self._hellos) == len(due)):
            raise ProtocolViolation(
                f"{CHARLIE} showed {self._me} {counted(len(self._hellos), 'hello')} with "
                f"{counted(len(shown.paths), 'path')}, but should show "
                f"{counted(len(due), 'hello')}{' without paths' if first else ', each with its path'}",
                peer=CHARLIE,
            )
        if len(self._hellos) < len(due):
            return
        if first and root_of(self._hellos) != self.root:
            raise _no_root(self._me)
        places = {name: place for place, name in enumerate(names)}
        for i, name in enumerate(() if first else due):
            if not is_under(self.root, len(names), places[name], self._hellos[i], shown.paths[i]):
                raise _no_root(name)
        self._keys = read.all(dict(zip(due, self._hellos, strict=True)), self._charlie)
        self._hellos.clear()
        self._read = None  # it knows as many parties as were shown, and is needed no more


def _no_root(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} showed a hello of {name} that is not under the root of his roster at the place of {name}; only "
        "the hellos from which the root was made are allowed",
        peer=CHARLIE,
    )
