"""Clones of one estimator: several of them are what a search or a cross-validation makes."""

from dataclasses import dataclass
from warnings import warn

from masquerade.estimators.warned import SearchCostWarning

__all__ = ["Family", "warn_of_a_search"]

_SEVERAL = 2


@dataclass
class Family:
    """One estimator and all its clones, which share this object. A process that gets a clone has a copy of its own.

    Parameters
    ----------
    clones : int
        How many clones were made.
    warned : bool
        Whether somebody was warned of what they cost.
    """

    clones: int = 0
    warned: bool = False


def warn_of_a_search(family: Family, name: str, epsilon: float, delta: float) -> None:
    """Warn once if an estimator has several clones.

    A search clones before it fits, in the process that searches. So this is seen whatever processes the fits run in.

    Parameters
    ----------
    family : Family
    name : str
        The estimator's class.
    epsilon, delta : float
        What one fit costs.
    """
    if family.clones < _SEVERAL or family.warned:
        return
    family.warned = True
    warn(
        f"{family.clones} clones of one {name} were made, as a search or a cross-validation makes them. Fitted to the "
        f"same records, each costs epsilon = {epsilon:g} and delta = {delta:g}, and the costs add up. Scores on "
        "records cost more than any epsilon counts, because they carry no noise. "
        "masquerade.estimators.search_cost(search) returns the cost of a search, and CountedGridSearchCV adds it to "
        "its statement_.",
        SearchCostWarning,
        stacklevel=4,
    )
