"""How much discrete Gaussian noise each of h parties draws, so that their sum is enough."""

import math
from fractions import Fraction

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting.closeness import LEAST_SHARE_SIGMA

__all__ = ["gaussian_share_sigma"]

_LEAST_USED_SIGMA = 4
_SHARE_BITS = 20  # behind the point of a share's sigma: rounding up costs less than 2^-20/3 of it


def gaussian_share_sigma(sigma: Fraction, honest: int) -> Fraction:
    """Return the sigma of a party's share: any ``honest`` shares hide as well as a continuous normal of ``sigma``.

    It is sqrt((sigma^2 + 9)/h), rounded up to a multiple of 2^-20, and at least 4: then tau is below 10^-67 a share and
    coordinate, and less than what statements keep of delta.

    Parameters
    ----------
    sigma : Fraction
        Standard deviation that the sum must have, in grid units, greater than 0.
    honest : int
        h, how many shares the adversary does not know: at least 1.

    Notes
    -----
    Let x be the sum of h draws of :func:`discrete_gaussian` with the sigma that is returned, s, on each coordinate. The
    release is q + x, q an integer vector that neighbours move by Delta in L2 norm. Whatever (epsilon, delta) holds for
    q + z, z continuous, normal, of standard deviation sqrt(h s^2 - 9) >= sigma, holds for q + x with delta raised by
    (1 + exp(epsilon)) tau, tau = :func:`closeness_of_sum`. So the exact curve of Gaussian noise in
    :mod:`masquerade_core.privacy.gaussian_dp` applies in any number of dimensions. The other parties' shares, which
    an adversary may not know either, only add independent noise.
    """
    _check(sigma > 0 and honest >= 1)
    least = (sigma**2 + LEAST_SHARE_SIGMA**2) / honest
    root = math.isqrt(math.ceil(least * 4**_SHARE_BITS) - 1) + 1
    return max(Fraction(root, 2**_SHARE_BITS), Fraction(_LEAST_USED_SIGMA))


def _check(allowed: bool) -> None:
    if not allowed:
        raise LocalProtocolError("noise was asked for beyond what its law is worked out for")
