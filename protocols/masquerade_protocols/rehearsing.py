"""A rehearsal of a run's arithmetic before the join: a machine too slow for the public forecast does not join."""

from masquerade_core.errors import RefusedLocally
from masquerade_core.forecast import Forecast
from masquerade_core.study import Study
from masquerade_protocols.entry import Cost

__all__ = ["rehearsed"]


def rehearsed(study: Study, cost: Cost, *, joined: bool) -> Forecast:
    """Return the forecast of a study's work, which this machine has tried.

    What is tried follows from public numbers, never from the records.

    Parameters
    ----------
    study : Study
    cost : Cost
        Of the study's protocol.
    joined : bool
        Whether an earlier process has joined the run, and this one goes on with it: then nothing is tried.

    Raises
    ------
    RefusedLocally
        This machine would not be done in the time that everybody allows for one frame.
    """
    forecast = cost.forecast(study)
    if not cost.exponentiations or joined:
        return forecast
    from masquerade_core.crypto.speed import seconds_of_exponentiation  # noqa: PLC0415  most runs need no gmpy2

    needed = cost.exponentiations * seconds_of_exponentiation(study.key_bits)
    allowed = study.study.deadline_seconds + forecast.seconds
    if needed > allowed:
        raise RefusedLocally(
            f"this machine needs about {needed:.0f} seconds for the encryption in this run; everybody allows "
            f"{allowed:.0f} for a frame",
            "end other programs here, or ask for a longer deadline_seconds or shorter keys",
        )
    return forecast
