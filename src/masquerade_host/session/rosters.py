"""The roster: Charlie shows the parties' hellos, and each party checks that he has exchanged none of their keys.

In a small study the roster has everybody's hello. In a large one it has the root of a Merkle tree over all hellos, and
further messages show each party those that it needs (:mod:`masquerade_host.session.large_rosters`).
"""

from collections.abc import Collection, Mapping

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.crypto.pair_keys import check_distinct, check_owned
from masquerade_core.errors import ProtocolViolation
from masquerade_core.roster_disclosure import shows_all
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import HASH_BYTES, Endpoint
from masquerade_core.words import counted
from masquerade_host.faults.endings import seen_in
from masquerade_host.session.messages import Hello, Roster

__all__ = ["Keys", "Reader", "box_keys_of"]

Keys = tuple[tuple[str, bytes], ...]


class Reader:
    """Reads the hello of one party after another, of those that are ``due``; the rest is as for :func:`box_keys_of`."""

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

    Where the roster has the root alone, there are none yet; :class:`masquerade_host.session.large_rosters.Shown`
    collects them.

    Parameters
    ----------
    roster : Roster
        As Charlie sent it.
    study : Study
        It pins the key under which each party signs.
    study_id : bytes
        The study's id, which hellos bear.
    signing : SigningKey
        This party's identity. It signs nothing here.
    own_hello : (str, bytes)
        This party's name, and the hello that it sent; empty where it is not known, as in a check afterwards.

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
                f"{study.K} parties it must have the root of a tree alone",
                peer=CHARLIE,
            )
        return ()
    if len(roster.hellos) != study.K or roster.root:
        raise ProtocolViolation(
            f"{CHARLIE} sent a roster of {counted(len(roster.hellos), 'party', 'parties')}; the study has {study.K}",
            peer=CHARLIE,
        )
    read = Reader(study, study_id, signing, own_hello, study.names)
    return read.all(dict(zip(study.names, roster.hellos, strict=True)), (CHARLIE, roster.box_key))


def _bad_hello(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} sent a roster whose hello of {name} is not one that {name} signed for this run; it must be the "
        f"hello that {name} sent",
        peer=CHARLIE,
    )
