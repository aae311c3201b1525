"""A party's work before it joins (section 3.1): it trains, draws the paper's noise, and rounds both to the grid.

All of this happens before the join. Later, the time that it takes would lie between two frames that Charlie sees, and
would tell him roughly how many records the party has. With calibration "proven" a share of the noise has a public
scale. So the time that it takes tells nothing, and it may be drawn later.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from masquerade_core.data.records import Records
from masquerade_core.errors import RefusedLocally
from masquerade_core.learning.erm import fit_records
from masquerade_core.privacy.noise.output_perturbation import paper_beta, paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.local_aggregation import joint_noise
from masquerade_protocols.local_aggregation.public import FRACTION_BITS, joint_noise_of, parameters_of

__all__ = ["Prepared", "draw_noise", "encode_weights", "prepare", "train"]


class Prepared(NamedTuple):
    """Party P_j's state when it joins, as integers on the grid.

    Parameters
    ----------
    vector : tuple of int
        W_j, the classifier.
    noise : tuple of int
        K eta_j, which stage 2 takes under encryption ("paper"); empty ("proven").
    size_class : int
        k_j, the class of this party's number of records ("proven"); 0 ("paper").
    """

    vector: tuple[int, ...]
    noise: tuple[int, ...] = ()
    size_class: int = 0


async def prepare(seat: Seat, study: Study, data: Records) -> Prepared:
    """Train and draw, for the roles of :mod:`masquerade_protocols.local_aggregation.roles`.

    Raises
    ------
    RefusedLocally
        The party has more records than a run can count; or, with calibration "proven", fewer than ``min_records``.
    """
    if data.n > study.countable:
        raise RefusedLocally(
            f"this party has more than {study.countable:,} records, the most that a run of {study.K} parties can count",
            "take part with fewer records",
        )
    if not study.proven:
        w_j, n_j = await train(seat, study, data), data.n
        return Prepared(encode_weights(w_j), await seat.once("noise", lambda rng: draw_noise(rng, study, n_j)))
    noise = joint_noise_of(study)
    joint_noise.check_size(data.n, noise)
    return Prepared(joint_noise.encode(await train(seat, study, data)), size_class=noise.class_of(data.n))


async def train(seat: Seat, study: Study, data: Records) -> tuple[float, ...]:
    """Return w_j, the minimiser over this party's records."""
    await seat.stage("training")
    return await seat.once("classifier", lambda _: tuple(fit_records(data, study.model.regularization).tolist()))


def draw_noise(rng: Rng, study: Study, n: int) -> tuple[int, ...]:
    """Step 2.3 of calibration "paper": draw K eta_j for n records, in units of 2^-F, as one integer vector.

    The factor K belongs to the scale. If K multiplied a drawn integer, the released sum modulo K would be the
    classifiers' sum modulo K, for everybody to read.
    """
    scale = Fraction(study.K << FRACTION_BITS)
    eps, lam = study.privacy.epsilon, study.model.regularization
    if parameters_of(study).noise == "laplace":
        return tuple(discrete_laplace(rng, scale * paper_scale(n, eps, lam), study.d))
    return tuple(l2_laplace(rng, paper_beta(n, eps, lam), study.d, scale))


def encode_weights(w: Sequence[float]) -> tuple[int, ...]:
    """Round to the grid of 2^-F, F that of calibration "paper"."""
    return tuple(round(v * 2**FRACTION_BITS) for v in w)
