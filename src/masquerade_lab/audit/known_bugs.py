"""Known bugs in the noise, made on purpose: each leaves too little noise, and an audit must catch it.

These are bugs that are easily made and that no error rate of a classifier shows, since less noise makes it better.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.noise.gaussian_rounds import gaussian_share_sigma, rounds_sigma, sensitivity
from masquerade_core.study import Study
from masquerade_lab.audit.audit import Audit, Gate
from masquerade_lab.audit.canary import FLAT, study_of
from masquerade_lab.audit.proofs import descent_scores
from masquerade_protocols.dp_gd import roles as dp_gd

__all__ = ["known_bugs"]


@cache
def _study() -> Study:
    return study_of(
        "dp-gd",
        parties=5,
        d=2,
        epsilon=1.0,
        delta=0.05,
        colluders=4,
        regularization=0.01,
        rounds=10,
        section={"clip": 0.25, "learning_rate": 4.0},
    )


def _bug(name: str, share: Fraction) -> Audit:
    """Return the audit of a ``dp-gd`` whose parties draw their noise with another sigma than they must."""
    study = _study()
    noise = replace(dp_gd.noise_of(study), share=share)
    return Audit(
        name=name,
        protocol="dp-gd",
        gate=Gate.CAUGHT,
        adversary="Charlie with 4 of 5 parties",
        canary=FLAT,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        scores=partial(descent_scores, study, noise, study.honest),
        runs=4000,
        quick=1500,
        proved=epsilon_of(noise.mu(study.honest), study.privacy.delta),
        how="own descent and sampler, with the bug's sigma",
    )


def _one_clip() -> Fraction:
    """Return the sigma of noise for C, the length of a record's gradient; a replaced record moves a sum by 2 C."""
    study, noise = _study(), dp_gd.noise_of(_study())
    Delta = sensitivity(dp_gd.clip_of(study) / 2, study.d, dp_gd.FRACTION_BITS)
    sigma = rounds_sigma(Delta, noise.rounds, study.privacy.epsilon, study.privacy.delta)
    return gaussian_share_sigma(sigma, study.honest)


def _all_honest() -> Fraction:
    """Return the sigma of shares of which K make up the noise, where the adversary knows all but h."""
    return gaussian_share_sigma(dp_gd.noise_of(_study()).sigma, _study().K)


def known_bugs() -> tuple[Audit, ...]:
    """Return the audits of known bugs."""
    return (
        _bug("dp-gd, sensitivity C for 2 C", _one_clip()),
        _bug("dp-gd, shares for K in place of h", _all_honest()),
    )
