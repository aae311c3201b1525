"""Who owns which record: by the labels that were given, or dealt at random."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import party_names
from masquerade.estimators.warned import InvalidInput
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE

__all__ = ["by_label", "deal", "rng_of", "study_names"]

_FEWEST = 2  # records of a party, as a study demands
_LONGEST = 32
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def deal(n: int, parties: Any, rng: Rng) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Deal n records at random to so many parties, whose sizes differ by one at most.

    Returns
    -------
    names : tuple of str
    owners : ndarray of int, shape (n,)
        Each record's owner, as a position in ``names``.

    Raises
    ------
    InvalidInput
        There are too few records, or the number is none.
    """
    K = int(parties) if isinstance(parties, int | np.integer) and not isinstance(parties, bool) else 0
    if K < 1:
        raise InvalidInput(f"n_parties is {parties!r}, but must be a whole number of at least 1")
    if n < _FEWEST * K:
        raise InvalidInput(
            f"n_samples={n} is too few for n_parties={K}: a party needs at least {_FEWEST} records; give more records, "
            "or choose fewer parties"
        )
    keys = np.frombuffer(rng.bytes(8 * n), dtype="<u8")
    owners = np.empty(n, dtype=np.intp)
    owners[np.argsort(keys, kind="stable")] = np.arange(n) % K
    return party_names(K, "party"), owners


def by_label(n: int, labels: Any) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Give each record to the party that its label names; returns as :func:`deal` does, with the names in order.

    Raises
    ------
    InvalidInput
        There is not one label for each record.
    """
    seen = np.asarray(labels)
    if seen.shape != (n,):
        raise InvalidInput(f"parties has shape {seen.shape}, but must have one label for each of n_samples={n} records")
    texts = np.array([str(label) for label in seen.tolist()], dtype=object)
    names, owners = np.unique(texts, return_inverse=True)
    return tuple(names.tolist()), owners.astype(np.intp)


def study_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Return names that a study allows: a label that is none gets the nearest one, with a number where two collide."""
    names: list[str] = []
    for label in labels:
        fits = _NAME.fullmatch(label) is not None
        base = label if fits else re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:_LONGEST] or "party"
        name, number = base, 1
        while name in names or name == CHARLIE or (name != label and name in labels):
            number += 1
            tail = f"-{number}"
            name = base[: _LONGEST - len(tail)] + tail
        names.append(name)
    return tuple(names)


def rng_of(seed: int | None, what: str) -> Rng:
    """Return the source of what a fit draws beside the protocol's own noise; the operating system's without a seed."""
    return SystemRng() if seed is None else SimulationRng(seed, f"estimator {what}")
