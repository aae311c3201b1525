"""What is said of vote and soft: the bounds hold, and the statement counts what is beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from masquerade_core.privacy.vote_claims import sensitivity
from masquerade_protocols import voting
from tests.vote_helpers import descriptor, unit_rows, vote_study


def test_how_far_a_partys_votes_move_the_minimiser_is_within_the_bounds() -> None:
    """The largest change that random and hostile votes make, against Theorems 1 and 3 and equations (53) and (60)."""
    rng, M = np.random.default_rng(3), 4
    for classes in (None, 3):
        C = classes or 2
        for protocol in ("vote", "soft"):
            X = np.tile(unit_rows(1, 3, 1), (40, 1))  # one direction, in which all changes add up
            study = vote_study(
                protocol, K=M, d=3, X=X / np.linalg.norm(X, axis=1)[:, None], classes=classes, Lambda=1.0
            )
            bound = sensitivity(soft=protocol == "soft", softmax=study.multiclass, Lambda=1.0, M=M)
            largest = 0.0
            for hostile in (True, False):
                votes = rng.integers(C, size=(M, 40))
                changed = votes.copy()
                changed[0] = rng.integers(C, size=40)
                if hostile:  # two against two at all points, so that one party turns everything round
                    votes[:] = np.array([[1], [0], [0], [1]] if C == 2 else [[0], [0], [1], [1]])
                    changed = votes.copy()
                    changed[0] = 0 if C == 2 else 2
                ends = []
                for cast_ in (votes, changed):
                    counts = np.stack([(cast_ == k).sum(axis=0) for k in range(C)], axis=1)
                    targets = (
                        voting.fractions(counts)
                        if protocol == "soft"
                        else voting.majority(counts, positive=not study.multiclass)
                    )
                    ends.append(voting.minimiser(study, study.auxiliary.X, targets))
                largest = max(largest, float(np.linalg.norm(ends[0] - ends[1])))
            assert 0.3 * bound < largest <= bound


@pytest.mark.parametrize("classes", [None, 3])
@pytest.mark.parametrize("protocol", ["vote", "soft"])
def test_the_statement_is_by_party_and_none_against_charlie(protocol: str, classes: int | None) -> None:
    study = vote_study(protocol, K=5, classes=classes)
    claims = {(c.view, c.unit): c for c in descriptor(study).statement(study)}
    model = claims["released model", "party"]
    assert model.epsilon is not None
    assert model.epsilon == pytest.approx(0.2, rel=1e-5)
    assert model.epsilon > 0.2  # rounding and the minimiser's tolerance are counted
    assert 0 < (model.delta or 0) < 1e-15
    assert "pure, epsilon = 0.2" in model.claimed
    assert claims["released model", "record"].epsilon == claims["one party", "party"].epsilon == model.epsilon
    assert "computational" in claims["one party", "party"].definition
    for view in ("Charlie", "Charlie with 1 party"):
        assert (claims[view, "party"].provable, claims[view, "party"].epsilon) == ("none", None)
    assert len(claims) == 5
    explanation = descriptor(study).explain(study)
    words = " ".join((*explanation.leaves, *explanation.collusion, *explanation.cost))
    assert model.provable in words
    assert "{" not in words


@pytest.mark.parametrize(
    ("protocol", "classes", "sample", "of_a_party"),
    [
        ("vote", None, 1.0, 1.0),
        ("soft", None, 1.0, 30 / 34),
        # Softmax: the gradients of a changed sample differ by 2 sqrt2, twice what the paper's factor has room for.
        ("vote", 3, 31 / 30, 1.0),
        ("soft", 3, 39 / 34, 30 / 34),
    ],
)
def test_private_auxiliary_samples_have_a_row_of_their_own(
    protocol: str, classes: int | None, sample: float, of_a_party: float
) -> None:
    section = "private_auxiliary = true" + ('\nties = "first"' if protocol == "vote" else "")
    study = vote_study(protocol, K=5, classes=classes, section=section)
    claims = {c.unit: c for c in descriptor(study).statement(study) if c.view == "released model"}
    assert claims["auxiliary sample"].epsilon == pytest.approx(0.2 * sample, rel=1e-5)
    assert claims["party"].epsilon == pytest.approx(0.2 * of_a_party, rel=1e-5)
    assert claims["auxiliary sample"].provable in " ".join(descriptor(study).explain(study).cost)


def test_rounding_is_counted_against_the_same_noise() -> None:
    """Beta times (Delta + sqrt(d) 2^-F + 2 gamma/lambda), by hand."""
    study = vote_study("soft", K=20, Lambda=0.01, epsilon=3.0)
    beta = 20 * 0.01 * 3 / 2
    by_hand = beta * (2 / (20 * 0.01) + math.sqrt(4) * 2.0**-voting.FRACTION_BITS + 2e-9 / 0.01)
    assert descriptor(study).statement(study)[0].epsilon == pytest.approx(by_hand, rel=1e-13)
