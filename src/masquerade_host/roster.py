"""The roster: Charlie shows the parties' hellos, and each party checks that he has exchanged none of their keys.

In a small study the roster has everybody's hello. In a large one it has the root of a Merkle tree over all hellos, and
further messages show each party those that it needs, with their paths (:mod:`masquerade_core.shown`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.crypto.pair_keys import check_distinct, check_owned
from masquerade_core.errors import BadInput, ProtocolViolation
from masquerade_core.shown import closes_with_all, coin_of, shown_to, shows_all
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Endpoint
from masquerade_core.wire.merkle import HASH_BYTES, is_under, path_to, root_of, tree_of
from masquerade_core.words import counted
from masquerade_host.seen import seen_in
from masquerade_host.session_messages import MOST_AT_ONCE, Hello, Hellos, Roster

__all__ = ["Keys", "Shower", "Shown", "box_keys_of", "check_size"]

Keys = tuple[tuple[str, bytes], ...]


def check_size(study: Study) -> None:
    """Check that a study's parties fit into the messages of a session.

    Raises
    ------
    BadInput
        They are too many.
    """
    if study.K > MOST_AT_ONCE and (shows_all(study) or closes_with_all(study)):
        raise BadInput(
            f"the study has {study.K:,} parties; where it has [dropouts], or sums under encryption, everybody is shown "
            f"everybody's hello or last word, and at most {MOST_AT_ONCE:,} parties may take part",
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
        self._tree = () if self._all else tree_of(self._hellos)
        self.root = b"" if self._all else self._tree[-1][0]

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
        due = set(shown_to(self._study, coin_of(run, self.root), name))
        places = [place for place, other in enumerate(names) if other in due]
        hellos = tuple(self._hellos[place] for place in places)
        yield Hellos(hellos=hellos, paths=tuple(path_to(self._tree, place) for place in places))


class Shown:
    """A party's part: the hellos that it is shown after a roster that has the root alone, until all are there.

    Parameters
    ----------
    roster : Roster
        As Charlie sent it.
    run : bytes
        The run id.
    study : Study
        It pins the key under which each party signs.
    study_id : bytes
        The study's id, which hellos bear.
    signing : SigningKey
        This party's identity. It signs nothing here.
    own_hello : (str, bytes)
        This party's name, and the hello that it sent; empty where it is not known, as in a check afterwards.
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
        self._read: _Reader | None = _Reader(study, study_id, signing, own_hello, self._due)
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
                f"{counted(len(shown.paths), 'path')}; due are {counted(len(due), 'hello')}"
                f"{' without paths' if first else ', each with its path'}",
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


class _Reader:
    """Reads the hello of one party after another, of those that are ``due``; the rest is as for :class:`Shown`."""

    def __init__(
        self,
        study: Study,
        study_id: bytes,
        signing: SigningKey,
        own_hello: tuple[str, bytes],
        due: Collection[str],
    ) -> None:
        wanted = set(due)
        signers = {party.name: party.key.sign for party in study.parties if party.name in wanted}
        self._endpoint = Endpoint(CHARLIE, study_id, signing, signers)
        self._study_id, self._signers = study_id, signers
        self._me, self._own = own_hello

    def all(self, hellos: Mapping[str, bytes], charlie: tuple[str, bytes]) -> Keys:
        """Return the public box keys in these hellos, and Charlie's."""
        keys = (*((name, self._read(name, signed)) for name, signed in hellos.items()), charlie)
        check_distinct(keys, hellos)
        return keys

    def _read(self, name: str, signed: bytes) -> bytes:
        """Return the public box key in a hello, which its party proves to own."""
        try:
            frame = self._endpoint.open(name, signed, numbered=False)
            hello = decode(Hello, frame.body, name)
        except ProtocolViolation as error:
            raise _bad_hello(name) from error
        if frame.kind != "hello" or frame.type != "" or (name == self._me and self._own and signed != self._own):
            raise _bad_hello(name)
        with seen_in(signed):
            check_owned(hello, self._study_id, name, self._signers[name])
        return hello.box_key


def box_keys_of(
    roster: Roster, study: Study, study_id: bytes, signing: SigningKey, own_hello: tuple[str, bytes]
) -> Keys:
    """Return every participant's public box key of this run, ((name, key), ...), Charlie's last.

    Where the roster has the root alone, there are none yet; :class:`Shown` collects them. The parameters are those of
    :class:`Shown`.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: he signed a roster with a hello that is not its party's, or with too few or too many; or he
        does not own his key. Or the fault of a party that does not own the key that it announced. Or of one of two
        that have one key.
    """
    check_owned(roster, study_id, CHARLIE, study.curator.key.sign)
    if not shows_all(study):
        if roster.hellos or len(roster.root) != HASH_BYTES:
            raise ProtocolViolation(
                f"{CHARLIE} sent a roster of {counted(len(roster.hellos), 'party', 'parties')}; in a study with "
                f"{study.K} parties it has the root of a tree alone",
                peer=CHARLIE,
            )
        return ()
    if len(roster.hellos) != study.K or roster.root:
        raise ProtocolViolation(
            f"{CHARLIE} sent a roster of {counted(len(roster.hellos), 'party', 'parties')}; the study has {study.K}",
            peer=CHARLIE,
        )
    read = _Reader(study, study_id, signing, own_hello, study.names)
    return read.all(dict(zip(study.names, roster.hellos, strict=True)), (CHARLIE, roster.box_key))


def _bad_hello(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} sent a roster whose hello of {name} is not one that {name} signed for this run; "
        f"allowed is the hello that {name} sent",
        peer=CHARLIE,
    )


def _no_root(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} showed a hello of {name} that is not under the root of his roster at the place of {name}; allowed "
        "are the hellos from which the root was made",
        peer=CHARLIE,
    )
