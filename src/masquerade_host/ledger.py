"""The ledger of the privacy budget: what a party's machine has spent, has promised to a study, and may still spend.

The ledger is one file for all studies of a machine, and it only grows. A budget belongs to a *population*: the people
whose records are used. Every data set belongs to one population, and is known by its *fingerprint*, a hash under a key
that never leaves the machine. ``docs/budget.md`` says what is kept and what is proved of it.
"""

from dataclasses import dataclass

from masquerade_core.study import Study
from masquerade_host.debits import Debits
from masquerade_host.state import StateFolder

__all__ = ["Account", "Ledger"]


@dataclass(frozen=True)
class Account:
    """What a population's budget is, and what became of it.

    Attributes
    ----------
    population : str
    epsilon, delta : float
        The limit.
    spent : float
        The epsilon of all that was debited, at the limit's delta; releases of studies still open count here too.
    reserved : float
        The further epsilon that studies still open may take.
    left : float
        The largest epsilon that a next study may have, if its releases compose no better than by adding up.
    """

    population: str
    epsilon: float
    delta: float
    spent: float
    reserved: float
    left: float


class Ledger:
    """A machine's ledger. Every method is one transaction, written to the disk before it returns.

    All methods raise :class:`~masquerade_core.errors.BudgetExceeded` (exit 7) where the budget does not allow
    something, :class:`~masquerade_core.errors.RefusedLocally` (exit 6) where a rule forbids it or a person must decide,
    and :class:`~masquerade_core.errors.RunFailed` (exit 1) where the file cannot be written.
    """

    @classmethod
    def open(cls, folder: StateFolder) -> "Ledger":
        """Open the ledger of a state folder; BudgetExceeded if there is none: no ledger means no budget."""
        raise NotImplementedError

    @classmethod
    def init(
        cls, folder: StateFolder, population: str, epsilon: float, delta: float, *, by: str, basic_only: bool = False
    ) -> "Ledger":
        """Give a population its limit, and make the ledger if there is none; BadInput if the population has one."""
        raise NotImplementedError

    def set_limit(self, population: str, epsilon: float, delta: float, *, by: str) -> None:
        """Change a population's limit."""
        raise NotImplementedError

    def populations(self) -> tuple[str, ...]:
        """Return the populations, in the order in which they were made."""
        raise NotImplementedError

    def account(self, population: str) -> Account:
        """Return what a population's budget is; BudgetExceeded if it has none."""
        raise NotImplementedError

    def fingerprint(self, data: object) -> bytes:
        """Return the keyed fingerprint (32 bytes) of a loaded data set."""
        raise NotImplementedError

    def population_of(self, fingerprint: bytes) -> str | None:
        """Return the population that a data set belongs to; None for one that was never seen."""
        raise NotImplementedError

    def adopt(self, fingerprint: bytes, population: str, *, by: str) -> None:
        """Note that a data set belongs to a population, as a person or the policy said (``by``)."""
        raise NotImplementedError

    def reserve(  # noqa: PLR0913  each is one fact of the reservation
        self,
        study: Study,
        me: str,
        *,
        population: str,
        fingerprint: bytes,
        approved_by: str,
        gaussian: bool = False,
    ) -> None:
        """Reserve what a study may take: its whole target. A reservation that is there already stays as it is.

        ``gaussian``: all of the study's releases compose as Gaussian ones (the protocol's entry says so). The data set
        must be known (:meth:`adopt`) and of this population: else RefusedLocally. BudgetExceeded where the limit would
        be exceeded, and RefusedLocally where the study finished here before.
        """
        raise NotImplementedError

    def start_attempt(self, study: Study, me: str, fingerprint: bytes, *, resumed: bool = False) -> int:
        """Begin an attempt, or go on with the last one (``resumed``, from its journal); return its number, from 1.

        RefusedLocally where the study finished here, has no reservation, had all its attempts, or began with another
        data set; BudgetExceeded where something has left and a whole run no longer fits.
        """
        raise NotImplementedError

    def debits_for(self, study: Study, me: str) -> Debits:
        """Return where a session of the attempt under way debits its releases."""
        raise NotImplementedError

    def end_attempt(self, study: Study, me: str, why: str) -> None:
        """Note that the attempt under way ended without a result. Its debits stay."""
        raise NotImplementedError

    def finish(self, study: Study, me: str) -> None:
        """Note that the study has finished: it never runs here again, and the rest of its reservation is free."""
        raise NotImplementedError

    def release(self, study: Study, me: str) -> None:
        """Give up a study that did not finish: what was debited stays, and the rest of its reservation is free."""
        raise NotImplementedError
