"""Compare two private numbers of 32 bits: the *decider* learns the outcome, the *evaluator* learns nothing.

The evaluator holds x, and the decider holds y. Both are shares mod 2^33 of a difference D = x - y. The sign of D is its
bit 32 = x_32 xor y_32 xor [x_low < y_low]. The decider sends the low bits of y encrypted. The evaluator draws a random
*direction bit* delta and returns 33 blinded items, of which at most one is zero:

    c_i = s + x_i - y_i + 3 sum_{l > i} (x_l xor y_l),   s = 1 - 2 delta     (i = 31 .. 0)
    c_e = [s = 1] + sum_l (x_l xor y_l)                                      (the equality item)

With delta = 0 a zero says x < y. With delta = 1 it says x >= y (the equality item belongs to that side). So the number
of zeros is [x < y] xor delta, which is uniform. It tells the decider nothing until the evaluator adds the clear bit
x_32 xor delta.

Encryption is ElGamal on ed25519 with the plaintext in the exponent: (rho G, rho X + m G). The evaluator multiplies each
item by a non-zero scalar, adds a new E(0) to it, and puts all items in a uniform order. The scalar alone would not hide
an item: the decider knows its own rho, divides, and reads x.

References
----------
Damgard, Geisler, Kroigaard, Int. J. Applied Cryptography 1 (2008) and its 2009 correction: the c_i, over our group.
"""

from collections.abc import Sequence

from nacl.bindings import (
    crypto_core_ed25519_add,
    crypto_core_ed25519_is_valid_point,
    crypto_core_ed25519_scalar_mul,
    crypto_scalarmult_ed25519_base_noclamp,
    crypto_scalarmult_ed25519_noclamp,
)
from nacl.exceptions import CryptoError

from masquerade_core.crypto.boxes import Secret
from masquerade_core.crypto.shares import random_permutation
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng

__all__ = ["BITS", "BITS_BYTES", "ITEMS_BYTES", "POINT_BYTES", "DeciderKey", "check_point", "evaluate"]

BITS = 32
POINT_BYTES = 32
_PAIR = 2 * POINT_BYTES
BITS_BYTES = BITS * _PAIR  # 2,048: the decider's encrypted bits
ITEMS_BYTES = (BITS + 1) * _PAIR  # 2,112: the evaluator's items
_ORDER = 2**252 + 27742317777372353535851937790883648493  # of ed25519's prime-order subgroup

_add = crypto_core_ed25519_add
_base = crypto_scalarmult_ed25519_base_noclamp
_times = crypto_scalarmult_ed25519_noclamp

_Pair = tuple[bytes, bytes]


def _scalar(rng: Rng) -> bytes:
    """Draw a scalar uniform in [1, order)."""
    return (1 + rng.below(_ORDER - 1)).to_bytes(32, "little")


_ONE = _base((1).to_bytes(32, "little"))


def check_point(point: bytes, peer: str) -> None:
    """Accept a point of the prime-order subgroup other than the identity. Anything else is the peer's fault."""
    if len(point) != POINT_BYTES or not crypto_core_ed25519_is_valid_point(point):
        msg = f"{peer} sent a key for comparisons that is not a valid point of the curve ed25519"
        raise ProtocolViolation(msg, peer=peer)


class DeciderKey(Secret):
    """The decider's ElGamal key: a scalar x, and X = x G for the evaluator.

    Parameters
    ----------
    scalar : bytes
        From :meth:`draw`.
    """

    __slots__ = ("_scalar", "public")

    def __init__(self, scalar: bytes) -> None:
        self._scalar = scalar
        self.public = _base(scalar)

    @staticmethod
    def draw(rng: Rng) -> bytes:
        """Draw a scalar."""
        return _scalar(rng)

    def encrypt_bits(self, rng: Rng, y: int) -> bytes:
        """Encrypt the low 32 bits of y, highest first: ``BITS_BYTES`` bytes.

        The key holder computes rho X as (rho x) G, because libsodium does that three times faster.
        """
        out = []
        for i in reversed(range(BITS)):
            rho = _scalar(rng)
            mask = _base(crypto_core_ed25519_scalar_mul(rho, self._scalar))
            # G is added in either case, and the sum is used or not. If it were added for ones alone, the time would
            # show how many ones there are. (For a zero nothing can be added: libsodium has no identity.)
            out += [_base(rho), (mask, _add(mask, _ONE))[y >> i & 1]]
        return b"".join(out)

    def count_zeros(self, items: bytes, peer: str) -> int:
        """Say whether one of the evaluator's items is zero: 0 or 1.

        Raises
        ------
        ProtocolViolation
            ``peer``'s fault: some bytes are not points, or more than one item is zero. Such bytes never pass for "not
            zero".
        """
        zeros = 0
        try:
            for a, b in _read(items, BITS + 1):
                zeros += _times(self._scalar, a) == b
        except (CryptoError, ValueError, TypeError) as error:
            msg = f"{peer} sent items of a comparison that are not all valid points of the curve ed25519"
            raise ProtocolViolation(msg, peer=peer) from error
        if zeros > 1:
            msg = f"{peer} sent items of a comparison of which {zeros} are zero; at most one may be"
            raise ProtocolViolation(msg, peer=peer)
        return zeros


def _pair_add(a: _Pair | None, b: _Pair) -> _Pair:
    return b if a is None else (_add(a[0], b[0]), _add(a[1], b[1]))


def evaluate(rng: Rng, public: bytes, bits: bytes, x: int, peer: str) -> tuple[bytes, int]:
    """Compare the evaluator's x with the encrypted bits of y.

    Parameters
    ----------
    rng : Rng
        The seat's randomness.
    public : bytes
        The decider's X.
    bits : bytes
        ``BITS_BYTES`` bytes from :meth:`DeciderKey.encrypt_bits`, checked here.
    x : int
        In [0, 2^33).
    peer : str
        The decider's name, for the error.

    Returns
    -------
    items : bytes
        ``ITEMS_BYTES`` bytes for the decider.
    clear : int
        x_32 xor delta, for the decider. The number of zeros xor clear xor y_32 is the bit [D < 0], bit 32 of x - y.
    """
    delta = rng.bits(1)
    try:
        y = _read(bits, BITS)
        plain = _items(y, [x >> i & 1 for i in reversed(range(BITS))], delta)
        items = [_blind(rng, public, item) for item in plain]
    except (CryptoError, ValueError, TypeError) as error:
        msg = f"{peer} sent encrypted bits for a comparison that are not all valid points of the curve ed25519"
        raise ProtocolViolation(msg, peer=peer) from error
    return b"".join(items[i] for i in random_permutation(rng, len(items))), (x >> BITS & 1) ^ delta


def _read(raw: bytes, count: int) -> list[_Pair]:
    """Read ``count`` pairs. Both halves are checked: a second half that is not a point would pass for "not zero"."""
    points = [raw[i : i + POINT_BYTES] for i in range(0, len(raw), POINT_BYTES)]
    if len(raw) != count * _PAIR or not all(crypto_core_ed25519_is_valid_point(point) for point in points):
        msg = f"not {count} pairs of points"
        raise ValueError(msg)
    return list(zip(points[::2], points[1::2], strict=True))


def _negate(point: bytes) -> bytes:
    """Return -P. ed25519 writes y and the parity of x; in the prime-order subgroup only the identity has x = 0."""
    return point[:-1] + bytes((point[-1] ^ 0x80,))


def _items(y: Sequence[_Pair], x: Sequence[int], delta: int) -> list[_Pair]:
    """Return the 33 items of the module's docstring, encrypted, in order."""
    s = 1 - 2 * delta
    multiples = {-1: _negate(_ONE), 0: _ONE, 1: _ONE, 2: _add(_ONE, _ONE)}  # at 0 the sum is not used
    differing: _Pair | None = None  # E(sum of x_l xor y_l) over the bits above
    items = []
    for y_i, x_i in zip(y, x, strict=True):
        a, b = _negate(y_i[0]), _negate(y_i[1])
        # There are as many additions for every x and delta, because the decider can measure the time and knows y.
        item = (a, (_add(b, multiples[s + x_i]), b)[s + x_i == 0])
        if differing is not None:
            item = _pair_add(_pair_add(_pair_add(item, differing), differing), differing)
        items.append(item)
        differing = _pair_add(differing, (y_i, (a, _add(b, _ONE)))[x_i])
    if differing is None:
        msg = "a comparison of no bits was asked for"
        raise LocalProtocolError(msg)
    a, b = differing
    return [*items, (a, (_add(b, _ONE), b)[delta])]


def _blind(rng: Rng, public: bytes, item: _Pair) -> bytes:
    """Return scalar * item + E(0): the scalar hides the plaintext's value, and E(0) hides the scalar."""
    scalar, rho = _scalar(rng), _scalar(rng)
    a, b = item
    return _add(_times(scalar, a), _base(rho)) + _add(_times(scalar, b), _times(rho, public))
