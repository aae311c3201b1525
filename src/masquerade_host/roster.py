"""A party's check of the roster: Charlie shows the parties' hellos, and cannot exchange one of their keys."""

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import ProtocolViolation
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Endpoint
from masquerade_core.words import counted
from masquerade_host.session_messages import Hello, Roster

__all__ = ["box_keys_of"]


def box_keys_of(
    roster: Roster, study: Study, study_id: bytes, signing: SigningKey, own_hello: tuple[str, bytes]
) -> tuple[tuple[str, bytes], ...]:
    """Return every participant's public box key of this run: ((name, key), ...), Charlie's last.

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
        This party's name, and the hello that it sent.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: he signed a roster with a hello that he had to refuse, or with too few or too many.
    """
    if len(roster.hellos) != study.K:
        raise ProtocolViolation(
            f"{CHARLIE} sent a roster of {counted(len(roster.hellos), 'party', 'parties')}; the study has {study.K}",
            peer=CHARLIE,
        )
    signers = {party.name: party.key.sign for party in study.parties}
    reader = Endpoint(CHARLIE, study_id, signing, signers)
    keys = []
    for name, signed in zip(study.names, roster.hellos, strict=True):
        try:
            frame = reader.open(name, signed)
            box_key = decode(Hello, frame.body, name).box_key
        except ProtocolViolation as error:
            raise _bad_hello(name) from error
        if frame.kind != "hello" or frame.type != "" or (name == own_hello[0] and signed != own_hello[1]):
            raise _bad_hello(name)
        keys.append((name, box_key))
    return (*keys, (CHARLIE, roster.box_key))


def _bad_hello(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} sent a roster whose hello of {name} is not one that {name} signed for this run; "
        f"allowed is the hello that {name} sent",
        peer=CHARLIE,
    )
