"""Audits of what is proved: no bound may exceed it, and each audit must exceed it with half of the noise.

To add one, write down how a run's noise meets a canary, with the protocol's own functions, and what the adversary
computes from it; then say what is proved. ``factor`` multiplies all noise.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.learning.input_noise import perturb, randomised_response
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS, counters_at_a_point
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.study import AuxiliaryFile, Label, Study
from masquerade_lab.audit.audit import Audit
from masquerade_lab.audit.canary import flat, proof, proven, study_of
from masquerade_lab.audit.source import Source
from masquerade_protocols.blocks.noise_shares import draw_noise_share
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.input_noise import public as input_noise
from masquerade_protocols.local_aggregation import joint_noise
from masquerade_protocols.local_aggregation.public import joint_noise_of
from masquerade_protocols.psgd import schedule as psgd_schedule
from masquerade_protocols.voting import public as voting

__all__ = ["descent_scores", "joint_scores", "proofs"]

_Array = NDArray[np.float64]


# --- dp-gd ----------------------------------------------------------------------------------------


def descent_scores(
    study: Study, noise: SharedNoise, shares: int, runs: int, moved: bool, source: Source, factor: Fraction
) -> _Array:
    """Run ``dp-gd``, and add up the opened sums' last coordinates.

    Parameters
    ----------
    study : Study
    noise : SharedNoise
        What every party draws its share from.
    shares : int
        How many shares of the noise the adversary does not know.
    """
    records, drawn = flat(20, study.d, moved=moved), replace(noise, share=noise.share * factor)
    scores = np.zeros(runs)
    for run in range(runs):
        descent = dp_gd.Descent(study, len(records.y))
        parts = [draw_noise_share(source.rng, drawn, study.d) for _ in range(shares)]
        for t in range(noise.rounds):
            noisy = zip(descent.gradient(records), *(part[t] for part in parts), strict=True)
            sums = tuple(sum(values) for values in noisy)
            scores[run] += sums[-1]
            descent.step(sums)
    return scores


# --- input-noise ----------------------------------------------------------------------------------


def _copy_scores(study: Study, runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Look at one noisy copy and one label in each run: everything else is made of them."""
    chosen = input_noise.Parameters.model_validate(study.protocol)
    alpha, epsilon_y = as_fraction(input_noise.alpha_of(study)) / factor, as_fraction(chosen.epsilon_y or 0.0)
    sign = -1.0 if moved else 1.0
    X, y = np.zeros((runs, study.d)), np.full(runs, sign)
    X[:, -1] = sign
    seen, labels = perturb(source.rng, X, alpha, chosen.noise), randomised_response(source.rng, y, epsilon_y)
    a = float(alpha)
    if chosen.noise == "gaussian":
        loss = 2 * a * a * seen[:, -1]
    else:
        e = np.eye(study.d)[-1]
        loss = a / 2 * (np.linalg.norm(seen + e, axis=1) - np.linalg.norm(seen - e, axis=1))
    return np.asarray(loss + float(epsilon_y) * labels)


# --- local-aggregation ----------------------------------------------------------------------------


def joint_scores(study: Study, runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Look at the classifier of the canary's party with that party's noise: the other 4 know their own noise."""
    noise, n = joint_noise_of(study), study.study.min_records
    if noise.scale_rule == "selected":  # a class that is not the floor's
        n *= 2
        noise = noise.of_class(noise.class_of(n))
    records = flat(n, study.d, moved=moved)
    w = fit(records.X, records.y, study.model.regularization).tolist()
    known = joint_noise.encode(w, n if noise.scale_rule == "sizes" else 1)[-1]
    return np.asarray(known + source.gaussian(noise.share() * factor, (runs,), 0))


# --- Descent that anybody may steer: psgd ---------------------------------------------------------


def _steered(study: Study, runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Open T sums at one far point, where both records' gradients are longest."""
    canary, w = _wide(80, moved=moved), np.array([-1000.0, 0.0])
    noise = psgd_schedule.joint_noise(study, psgd_schedule.FRACTION_BITS)
    drawn = replace(noise, share=noise.share * factor)
    known = gradient_sum(canary.X, canary.y, w, loss_of(study.model.loss))[-1] * 2**psgd_schedule.FRACTION_BITS
    parts = [draw_noise_share(source.rng, drawn, study.d) for _ in range(runs)]
    return np.array([float(sum(x[-1] for x in part)) + noise.rounds * known for part in parts])


def _wide(degrees: float, *, moved: bool) -> Dataset:
    """Return one record labelled +1, at this angle to the first axis, on one side of it or on the other."""
    angle = math.radians(degrees) * (1 if moved else -1)
    return Dataset.from_unit_ball(np.array([[math.cos(angle), math.sin(angle)]]), np.ones(1))


# --- vote and soft --------------------------------------------------------------------------------

_POINTS = 4


def _vote_scores(study: Study, runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Add up the counts that the canary's votes are in: of the first class, less those of the second."""
    noise, counters = voting.noise_of(study), counters_at_a_point(study.classes or 2)
    signs = np.tile([1, -1, 0][:counters], _POINTS)
    votes = signs == (1 if moved else -1)  # for the first class everywhere, or for the second
    known = float(signs @ votes) * 2**COUNT_BITS
    draws = (np.array(discrete_gaussian(source.rng, noise.share * factor, len(signs))) for _ in range(runs))
    return np.array([known + float(signs @ x) for x in draws])


# --- The list -------------------------------------------------------------------------------------

_MOST = "Charlie with 4 of 5 parties"


def _dp_gd(colluders: int, adversary: str, quick: int) -> Audit:
    study = study_of(
        "dp-gd",
        parties=5,
        d=2,
        epsilon=1.0,
        delta=0.05,
        colluders=colluders,
        regularization=0.01,
        rounds=10,
        section={"clip": 0.25, "learning_rate": 4.0},
    )
    scores = partial(descent_scores, study, dp_gd.noise_of(study), study.honest)
    return proof(
        f"dp-gd, {colluders} colluders",
        study,
        scores,
        adversary=adversary,
        quick=quick,
        cost=2.5 if colluders == 0 else 1.2,
    )


def _input_noise(law: str, d: int, delta: float) -> Audit:
    study = proven("input-noise", d=d, delta=delta, section={"noise": law})
    return proof(
        f"input-noise, {law}",
        study,
        partial(_copy_scores, study),
        adversary="whoever holds the noisy copy and the randomised label",
        canary="a unit vector labelled +1, or its negative labelled -1",
        runs=40000,
        quick=10000,
        cost=0.12,
    )


def _joint(scale_rule: str) -> Audit:
    section = {"weights": "sizes"} if scale_rule == "sizes" else {"scale": scale_rule}
    study = proven("local-aggregation", colluders=4, regularization=1.0, section=section)
    return proof(
        f"local-aggregation, {scale_rule}",
        study,
        partial(joint_scores, study),
        adversary=_MOST,
        runs=20000,
        quick=10000,
        how="own minimiser, scale, grid and sizes of shares; the sum as it is opened, with noise by the fast law",
        cost=0.001,
    )


def _psgd() -> Audit:
    study = proven("psgd", colluders=4, rounds=10)
    return proof(
        "psgd, points chosen",
        study,
        partial(_steered, study),
        adversary=f"{_MOST}, who supplies w_t",
        canary="one of two unit vectors 160 degrees apart",
        quick=4000,
        how="own gradients and shares of noise; the sums as they are opened",
        cost=0.5,
    )


def _votes(protocol: str, **more: Any) -> Audit:
    auxiliary = AuxiliaryFile(file="points.csv", sha256="0" * 64, records=_POINTS)
    study = proven(protocol, colluders=4, auxiliary=auxiliary, **more)
    return proof(
        protocol,
        study,
        partial(_vote_scores, study),
        adversary=_MOST,
        canary="a party that votes for one class at every point, or for another",
        how="own layout of counters, shares and sampler; the counts as they are opened",
        cost=0.15,
    )


def proofs() -> tuple[Audit, ...]:
    """Return the audits of what is proved."""
    return (
        _dp_gd(0, "everybody: T sums, with the noise of all 5 parties", 0),
        _dp_gd(4, _MOST, 4000),
        _input_noise("gaussian", 2, 0.05),
        _input_noise("l2", 1, 1e-6),
        _joint("selected"),
        _joint("floor"),
        _joint("sizes"),
        _psgd(),
        _votes("vote"),
        _votes("soft", label=Label(name="class", classes=("a", "b", "c"))),
    )
