"""The steps of a process before it joins: it loads all that its run may need, and rehearses the run's arithmetic.

A machine too slow for the public forecast does not join. What a process loads later is not in the hash of its program.
"""

from masquerade_core.errors import RefusedLocally
from masquerade_core.seat import Forecast
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.blame import openings_of
from masquerade_protocols.blocks.secure_sum import charlie_sums, party_sums
from masquerade_protocols.entry import Cost

__all__ = ["load_all", "rehearsed"]


def load_all(study: Study, me: str, cost: Cost) -> None:
    """Load what a role and the judgement of its end import only for studies like this one.

    Parameters
    ----------
    study : Study
    me : str
        The participant.
    cost : Cost
        Of the study's protocol.
    """
    if cost.sums:
        charlie_sums(study) if me == CHARLIE else party_sums(study)
    openings_of(study)


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
    from masquerade_core.crypto.speed import seconds_of_exponentiation

    needed = cost.exponentiations * seconds_of_exponentiation(study.key_bits)
    allowed = study.study.deadline_seconds + forecast.seconds
    if needed > allowed:
        raise RefusedLocally(
            f"this machine needs about {needed:.0f} seconds for the encryption in this run; everybody waits "
            f"{allowed:.0f} for a frame",
            "end other programs here, or ask for a longer deadline_seconds or shorter keys",
        )
    return forecast
