"""The code that people compare: 40 bits of a hash over the study, the roster, and a fresh number of every site.

A hash of the roster alone would need some 32 digits: a coordinator could try keys until two short hashes agree. So each
site draws a number of 32 bytes. It first hands over a *commitment* to its keys and its number, which is a hash of them.
It shows the number itself only when it holds the commitments of all sites. When the coordinator chooses the numbers of
the sites that he invents, he does not yet know those of the honest ones. So he has one guess a try, and it is right
with probability 2^-40.

References
----------
S. Vaudenay, Secure communications over insecure channels based on short authenticated strings, CRYPTO 2005, section 4:
commit, then open. S. Laur and S. Pasini, SAS-based group authentication and key agreement, PKC 2008: for groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgpack

from masquerade_core.identity import PublicKeys

__all__ = ["CODE_BITS", "HASH_BYTES", "NUMBER_BYTES", "Seat", "code_of", "commitment", "read_code", "transcript"]

CODE_BITS = 40
"""How long the code is. A coordinator who guesses is right once in 2^40 tries."""

HASH_BYTES = 32
NUMBER_BYTES = 32

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # of D. Crockford's base 32: without I, L, O and U
_ALIKE = str.maketrans("ILO", "110")
_LETTER_BITS = 5
_GROUP = 4  # letters of a code that stand together


@dataclass(frozen=True)
class Seat:
    """One site, as the lobby shows it to another.

    Parameters
    ----------
    name : str
        In the study.
    keys : PublicKeys
    commitment : bytes
        32 bytes (:func:`commitment`).
    number : bytes
        The site's fresh number, 32 bytes; empty until it is shown.
    """

    name: str
    keys: PublicKeys
    commitment: bytes
    number: bytes = b""


def commitment(lobby: bytes, name: str, keys: PublicKeys, number: bytes) -> bytes:
    """Return a hash (32 bytes) that binds a site to its keys and its number, and shows nothing of the number.

    Parameters
    ----------
    lobby : bytes
        The lobby's own random number, 16 bytes.
    name : str
        The site's.
    keys : PublicKeys
    number : bytes
        32 random bytes, drawn for one try.
    """
    return _hash(b"masq commitment", [lobby, name, keys.curve, keys.sign, number], HASH_BYTES)


def transcript(lobby: bytes, study: bytes, seats: Sequence[Seat]) -> bytes:
    """Return the hash (32 bytes) of all that a site was shown.

    Parameters
    ----------
    lobby : bytes
    study : bytes
        The digest of the complete study, which has Charlie's keys and those of all sites.
    seats : sequence of Seat
        All of them in the study's order, with their numbers.
    """
    rows = [[seat.name, seat.keys.curve, seat.keys.sign, seat.commitment, seat.number] for seat in seats]
    return _hash(b"masq lobby code", [lobby, study, rows], HASH_BYTES)


def code_of(transcript: bytes, bits: int = CODE_BITS) -> str:
    """Return the code that people compare: ``bits`` bits of a transcript's hash, in groups of four letters."""
    number = int.from_bytes(transcript) >> (8 * len(transcript) - bits)
    count = -(-bits // _LETTER_BITS)
    letters = "".join(_LETTERS[number >> (_LETTER_BITS * place) & 31] for place in reversed(range(count)))
    return "-".join(letters[at : at + _GROUP] for at in range(0, count, _GROUP))


def read_code(typed: str) -> str:
    """Return a code as :func:`code_of` writes it, from what somebody typed: blanks, small letters and O for 0 do."""
    letters = "".join(typed.replace("-", " ").split()).upper().translate(_ALIKE)
    return "-".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))


def _hash(purpose: bytes, values: list[object], length: int) -> bytes:
    return blake2b(msgpack.packb(values), digest_size=length, person=purpose).digest()
