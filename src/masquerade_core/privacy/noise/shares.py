"""How much discrete Gaussian noise each party draws, so that the sum of the honest parties' noise is enough."""

from fractions import Fraction

from masquerade_core.privacy._checks import require
from masquerade_core.privacy._roots import root_up
from masquerade_core.privacy.accounting.closeness import LEAST_SHARE_SIGMA

__all__ = ["gaussian_share_sigma"]

_LEAST_USED_SIGMA = 4
_SHARE_BITS = 20  # fraction bits of a share's sigma: rounding up costs less than 2^-20/3 of it


def gaussian_share_sigma(sigma: Fraction, honest: int) -> Fraction:
    """Return the sigma of a share, such that any ``honest`` shares hide as well as one continuous normal of ``sigma``.

    It is sqrt((sigma^2 + 9)/h), rounded up to a multiple of 2^-20, and at least 4. Then tau of :func:`closeness_of_sum`
    is below 10^-67 for each share and coordinate, which is less than the part of delta that statements reserve for it.

    Parameters
    ----------
    sigma : Fraction
        Standard deviation that the sum must have, in grid units, greater than 0.
    honest : int
        h, how many shares the adversary does not know: at least 1.

    Notes
    -----
    Each of h parties draws from :func:`~masquerade_core.privacy.samplers.discrete_gaussian.discrete_gaussian` with the
    returned sigma, s. Let x be the sum of their draws on each coordinate. The release is q + x, where q is an integer
    vector that differs by at most Delta in L2 norm between neighbours. Let z be continuous and normal, of standard
    deviation sqrt(h s^2 - 9) >= sigma. A guarantee (epsilon, delta) of q + z holds for q + x with
    (1 + exp(epsilon)) tau more in delta, tau = :func:`~masquerade_core.privacy.accounting.closeness.closeness_of_sum`.
    So the exact curve of Gaussian noise in :mod:`masquerade_core.privacy.accounting.gaussian_dp` applies, in any number
    of dimensions. Further shares that the adversary does not know only add independent noise.
    """
    require(sigma > 0 and honest >= 1, "sigma must be greater than 0, and at least one share unknown to the adversary")
    least = (sigma**2 + LEAST_SHARE_SIGMA**2) / honest
    return max(root_up(least, _SHARE_BITS), Fraction(_LEAST_USED_SIGMA))
