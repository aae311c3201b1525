"""The statement of ``average``, Hamm, Cao and Belkin's noisy mean of M classifiers, whose unit is the party.

No minimiser is longer than a radius R, so replacing one party's moves the mean by at most 2 R/M. The paper counts 2/(M
Lambda), or 2 sqrt2/(M Lambda) for softmax. The proof takes the smaller of these, adds the errors of inexact minimisers
and of rounding, and compares the sum with the Delta that the noise was made for. ``docs/privacy/voting.md`` derives R.
"""

import math

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.votes import minimiser_radius
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.privacy.several_records import several_records
from masquerade_core.privacy.statement import Claim, Rows, digits
from masquerade_core.study import Study
from masquerade_lab.baselines.average import FRACTION_BITS, average_rate
from masquerade_lab.baselines.statement import ASSUMPTIONS, WHOEVER_COMPUTES

__all__ = ["statement"]

_ROWS = Rows(
    source="docs/privacy/voting.md",
    assumptions=ASSUMPTIONS,
    unit="party",
    neighbours="replace all records of one party, the number of parties fixed",
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the privacy statement."""
    epsilon, Lambda, M = study.privacy.epsilon, study.model.regularization, study.K
    published = float(as_fraction(epsilon) / average_rate(study))  # the paper's Delta
    radius = minimiser_radius(loss=study.model.loss, classes=study.classes, Lambda=Lambda)
    rounded = math.sqrt(study.d * study.outputs) * 2.0**-FRACTION_BITS
    moved = min(published, 2 * radius / M) + 2 * TOLERANCE / (Lambda * M) + rounded
    proved = epsilon * moved / published * (1 + 1e-12)
    delta = min(1.0, 2.0**-L2_TV_BITS * (1 + math.exp(min(proved, 700.0))))  # the sampler's distance from its law
    released = _ROWS.proved(
        "released model",
        "Whatever a party's records are, the length of its classifier has a bound. With a small regularization that "
        "bound is far below the one that the paper uses.",
        claimed=f"pure, epsilon = {epsilon:g}, with a trusted party (Appendix B.4)",
        provable=f"epsilon = {digits(proved)}, delta = {delta:.1e}",
        epsilon=proved,
        delta=delta,
        holds_at="this noise"
        if proved <= epsilon
        else f"epsilon = {digits(epsilon**2 / proved, math.floor)} in the study",
        definition="approximate",
    )
    # What is proved of a party covers a whole party. A person's records may be with several parties.
    person = several_records(study, released)[:-1]
    return (released, WHOEVER_COMPUTES, *person)
