"""The rest of this machine's privacy budget, and a study's share of it, as one line."""

from dataclasses import dataclass

from masquerade_core.errors import MasqueradeError
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS
from masquerade_core.study import Study
from masquerade_host.store.budget import parties_of, populations, would_fit
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from masquerade_protocols import Protocol

__all__ = ["BudgetLine", "budget_line"]


@dataclass(frozen=True)
class BudgetLine:
    """A sentence about the budget, and whether it covers the study."""

    fits: bool
    text: str
    hint: str = ""


def budget_line(
    folder: StateFolder, study: Study, protocol: Protocol, me: str = "", data: object = None
) -> BudgetLine | None:
    """Return what is left and what the study would take; None where this machine keeps no ledger.

    Parameters
    ----------
    folder : StateFolder
    study : Study
    protocol : Protocol
        The study's entry.
    me : str
        Which party this machine plays; "" where that is not known.
    data : object
        The party's loaded records. They tell the population; by default it is the machine's only one, or "default".
    """
    if not folder.ledger.exists():
        return None
    try:
        ledger = Ledger.open(folder)
        names = populations(ledger)
        found = None if data is None else ledger.population_of(ledger.fingerprint(data))
        population = found or (names[0] if len(names) == 1 else "default")
        account, spends = ledger.account(population), protocol.spends(study)
        fits = would_fit(ledger, study, me, population, spends)
        reserved = me and me in parties_of(ledger, study)
        ledger.close()
    except MasqueradeError as error:
        return BudgetLine(fits=False, text=error.message, hint=error.hint)
    takes = f"epsilon = {spends.epsilon / UNITS:.4g} and delta = {spends.delta / DELTA_UNITS:.3g}"
    left = (
        f"of the limit of {population!r}, epsilon = {account.epsilon:g} and delta = {account.delta:g}, epsilon = "
        f"{account.left:.4g} and delta = {account.delta_left:.3g} are left"
    )
    if reserved:
        return BudgetLine(fits=True, text=f"{takes} are reserved for this study; besides, {left}")
    if fits:
        return BudgetLine(fits=True, text=f"this study would take {takes}; {left}")
    hint = "'masquerade budget history' shows what took it; a study that finished here never runs again"
    return BudgetLine(fits=False, text=f"this study would take {takes}, which does not fit: {left}", hint=hint)
