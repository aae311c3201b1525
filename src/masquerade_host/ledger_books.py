"""The books of the ledger: limits, reservations, attempts, debits and the allowed rest, computed from its entries.

The books are computed anew from the entries whenever a ledger is opened. They touch no file. Every method that begins
with ``check`` raises if an entry would break a rule; :meth:`Books.enter` takes an entry that was written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from masquerade_core.errors import BudgetExceeded, RefusedLocally
from masquerade_core.privacy.accounting.composition import DELTA_UNITS, UNITS, Cost, Total
from masquerade_host.ledger_file import Entry

__all__ = ["Attempt", "Books", "Population", "Reservation"]

_ROUNDING = 10**-6  # of epsilon and delta: by so much may rounding up make a run's debits exceed its target


@dataclass
class Attempt:
    """One attempt at a study: its number from 1, its run id once something was debited, and its debits by label."""

    number: int
    run: str = ""
    debits: dict[str, Cost] = field(default_factory=dict)
    total: Total = field(default_factory=Total)
    over: bool = False


@dataclass
class Reservation:
    """A study's share of a population's budget on this machine: reserved, and taken so far.

    Attributes
    ----------
    study, me : str
        The study's digest in hexadecimal digits, and which of its parties this machine plays.
    name : str
        The study's name.
    population, fingerprint : str
    whole : Cost
        The study's target: all its attempts together never take more.
    one : Cost
        What one attempt takes at most.
    attempts : int
        How many attempts may end without a debit.
    sizes : str
        A hash, under the ledger's key, of the exact numbers that this party adds to opened sums in every attempt; empty
        before the first one.
    state : str
        "open", "finished", or "released": given up.
    """

    study: str
    me: str
    name: str
    population: str
    fingerprint: str
    whole: Cost
    one: Cost
    attempts: int
    sizes: str = ""
    state: str = "open"
    tries: list[Attempt] = field(default_factory=list)

    @property
    def taken(self) -> Total:
        """The sum of the debits of all attempts."""
        return _sum(attempt.total for attempt in self.tries)

    def spent(self, *, basic_only: bool) -> Total:
        """Return what was debited; where costs only add up, all of the target as soon as there is one debit.

        Rounds compose better than they add up. So a part of a study has no cost of its own that only adds up.
        """
        if basic_only and self.taken.count:
            return Total.of(self.whole)
        return self.taken.at_most(self.whole)

    def charged(self, *, basic_only: bool) -> Total:
        """Return what a budget has to count: the whole target while an attempt may come, else what was spent."""
        return Total.of(self.whole) if self.goes_on else self.spent(basic_only=basic_only)

    @property
    def goes_on(self) -> bool:
        """Whether an attempt is under way, or another one is allowed."""
        return self.state == "open" and (self.attempt is not None or (self.free < self.attempts and self.has_room))

    @property
    def free(self) -> int:
        """How many attempts debited nothing."""
        return sum(not attempt.debits for attempt in self.tries)

    @property
    def has_room(self) -> bool:
        """Whether a whole run fits the study's target, besides what was debited."""
        return not self.taken.count or (self.one != self.whole and self.fits(Total.of(self.one)))

    @property
    def attempt(self) -> Attempt | None:
        """The attempt under way."""
        return self.tries[-1] if self.tries and not self.tries[-1].over else None

    def fits(self, more: Total) -> bool:
        """Say whether the study's target still covers ``more``, up to what rounding adds."""
        total = self.taken + more
        if self.whole.mu and not total.others:
            return total.mu2 <= self.whole.mu**2 * (1 + 2 * _ROUNDING)
        epsilon = self.whole.epsilon + int(self.whole.epsilon * _ROUNDING) + total.count
        delta = self.whole.delta + int(self.whole.delta * _ROUNDING) + 2 * total.count
        return total.fits(epsilon, delta)


@dataclass
class Population:
    """The people whose records share one budget: its limit, in units, and the rule by which costs compose."""

    name: str
    epsilon: int
    delta: int
    basic_only: bool

    def fits(self, total: Total) -> bool:
        """Say whether the limit covers a total."""
        return total.fits(self.epsilon, self.delta, basic_only=self.basic_only)


class Books:
    """The state that the ledger's entries make."""

    def __init__(self) -> None:
        self.populations: dict[str, Population] = {}
        self.datasets: dict[str, str] = {}
        self.reservations: dict[tuple[str, str], Reservation] = {}
        self.runs: dict[str, tuple[str, str, int]] = {}  # by run id: study, participant, number of the attempt

    def enter(self, entries: Iterable[Entry]) -> None:
        """Take entries that stand in the ledger."""
        for entry in entries:
            getattr(self, f"_enter_{entry.kind}")(**entry.fields)

    def _enter_limit(self, *, population: str, epsilon: int, delta: int, basic_only: bool, by: str) -> None:
        del by
        self.populations[population] = Population(population, epsilon, delta, basic_only)

    def _enter_dataset(self, *, fingerprint: str, population: str, by: str) -> None:
        del by
        self.datasets[fingerprint] = population

    def _enter_reserved(
        self,
        *,
        study: str,
        me: str,
        name: str,
        population: str,
        fingerprint: str,
        whole: list[int],
        one: list[int],
        attempts: int,
        by: str,
    ) -> None:
        del by
        made = Reservation(study, me, name, population, fingerprint, Cost(*whole), Cost(*one), attempts)
        if (before := self.reservations.get((study, me))) is not None:
            # What was debited, and what was sent, before it was given up still counts.
            made.tries, made.sizes = before.tries, before.sizes
        self.reservations[study, me] = made

    def _enter_attempt(self, *, study: str, me: str, number: int, sizes: str = "") -> None:
        reservation = self.reservations[study, me]
        if reservation.tries:
            reservation.tries[-1].over = True
        reservation.tries.append(Attempt(number))
        reservation.sizes = reservation.sizes or sizes

    def _enter_debit(self, *, study: str, me: str, run: str, label: str, cost: list[int]) -> None:
        attempt = self.reservations[study, me].tries[-1]
        attempt.run = run
        attempt.debits[label] = Cost(*cost)
        attempt.total += Total.of(Cost(*cost))
        self.runs[run] = study, me, attempt.number

    def _enter_ended(self, *, study: str, me: str, why: str) -> None:
        del why
        self.reservations[study, me].tries[-1].over = True

    def _enter_finished(self, *, study: str, me: str) -> None:
        self._end(study, me, "finished")

    def _enter_released(self, *, study: str, me: str, by: str) -> None:
        del by
        self._end(study, me, "released")

    def _end(self, study: str, me: str, state: str) -> None:
        reservation = self.reservations[study, me]
        reservation.state = state
        if reservation.tries:
            reservation.tries[-1].over = True

    # --- What is allowed ------------------------------------------------------

    def population(self, name: str) -> Population:
        """Return a population; BudgetExceeded if it has no budget."""
        if (found := self.populations.get(name)) is None:
            raise BudgetExceeded(
                f"the population {name!r} has no budget on this machine; "
                f"{_some(self.populations, 'those that have one are', 'no population has one')}",
                f"give it one: masquerade budget init --population {name} --epsilon 10 --delta 1e-5",
            )
        return found

    def charged(self, population: str, but: Reservation | None = None) -> Total:
        """Return what a population's budget has to count of all studies, or of all but one."""
        basic_only = self.population(population).basic_only
        own = (r for r in self.reservations.values() if r.population == population and r is not but)
        return _sum(r.charged(basic_only=basic_only) for r in own)

    def reservation(self, study: str, me: str) -> Reservation:
        """Return a study's open reservation; RefusedLocally if it finished here or nothing is reserved."""
        found = self.reservations.get((study, me))
        if found is not None and found.state == "finished":
            raise _finished(found)
        if found is None or found.state != "open":
            raise RefusedLocally(
                "no budget is reserved for this study on this machine", "approve it first: masquerade approve STUDY"
            )
        return found

    def check_reserve(self, new: Reservation) -> bool:
        """Check that a study may reserve its target; returns False where it has it already."""
        before = self.reservations.get((new.study, new.me))
        if before is not None:
            if before.state == "finished":
                raise _finished(before)
            _check_same_data(before, new.fingerprint)
            if before.state == "open":
                return False
        population, rest = self.population(new.population), self.charged(new.population, before)
        if not population.fits(rest + Total.of(new.whole)):
            raise BudgetExceeded(
                f"the study would take epsilon = {_epsilon(new.whole)} and delta = {_delta(new.whole)}, and the budget "
                f"of {population.name!r} does not cover it: {_state(population, rest)}",
                "'masquerade budget history' shows what took it; a smaller epsilon or delta may fit",
            )
        return True

    def check_attempt(self, study: str, me: str, fingerprint: str, sizes: str) -> Reservation:
        """Check that a new attempt may begin, whatever became of the last one."""
        found = self.reservation(study, me)
        _check_same_data(found, fingerprint)
        _check_same_sizes(found, sizes)
        if found.free >= found.attempts:
            raise RefusedLocally(
                f"this machine has made {found.free} attempts at this study that released nothing; its attempts = "
                f"{found.attempts} allows no more",
                "make a new study, with a nonce of its own, once you know why they failed",
            )
        if not found.has_room:
            raise BudgetExceeded(
                f"an earlier attempt at this study released something: epsilon = {_digits(found.taken, found.whole)} "
                f"was debited, and with a whole run it would be more than the study's {_epsilon(found.whole)}",
                "make a new study, which spends anew; one with charged_attempts = 1 pays for a second attempt ahead",
            )
        population = self.population(found.population)
        if not population.fits(self.charged(population.name)):
            raise BudgetExceeded(
                f"the limit of {population.name!r} was lowered below what is reserved: "
                f"{_state(population, self.charged(population.name))}",
                "raise it again with 'masquerade budget limit', or give up a study with 'masquerade budget release'",
            )
        return found

    def labels(self, study: str, me: str, run: str) -> frozenset[str]:
        """Return the labels of all debits of a run."""
        tries = self.reservations[study, me].tries
        return frozenset(label for attempt in tries if attempt.run == run for label in attempt.debits)

    def check_debit(self, study: str, me: str, number: int, run: str, new: dict[str, Cost]) -> dict[str, Cost]:
        """Check that an attempt may debit these costs; returns those that were not debited before."""
        found = self.reservation(study, me)
        attempt = found.attempt
        if attempt is None or attempt.number != number:
            raise RefusedLocally(
                f"attempt {number} at this study is over on this machine: another process has begun a new one",
                "let one process at a time play a party",
            )
        if (attempt.run or run) != run or self.runs.get(run, (study, me, number)) != (study, me, number):
            raise RefusedLocally("the run id of this attempt is not the one under which it debited before")
        for label, cost in new.items():
            if attempt.debits.get(label, cost) != cost:
                raise RefusedLocally(
                    f"{label!r} was debited before in this run at another cost",
                    "go on with the version of this program that began the run",
                )
        fresh = {label: cost for label, cost in new.items() if label not in attempt.debits}
        if not found.fits(_sum(map(Total.of, fresh.values()))):
            raise BudgetExceeded(
                f"the run would spend more than the study's epsilon = {_epsilon(found.whole)} and delta = "
                f"{_delta(found.whole)}; the release that would have done so stays here"
            )
        return fresh


def _sum(totals: Iterable[Total]) -> Total:
    return sum(totals, start=Total())


def _check_same_data(reservation: Reservation, fingerprint: str) -> None:
    if reservation.fingerprint != fingerprint:
        raise RefusedLocally(
            "these records are not those with which this study began on this machine; two runs over different "
            "records would show who was changed",
            "take the records as they were; for others make a new study, with a nonce of its own",
        )


def _check_same_sizes(reservation: Reservation, sizes: str) -> None:
    if reservation.sizes not in {"", sizes}:
        raise RefusedLocally(
            "the same records would now be counted in another way than in the first attempt at this study; two numbers "
            "of all records would show the difference",
            "go on with the version of this program that began the study, or make a new study, with a nonce of its own",
        )


def _finished(reservation: Reservation) -> RefusedLocally:
    return RefusedLocally(
        f"the study {reservation.name} has finished on this machine, and a finished study never runs again",
        "its results are where the run wrote them; for a new run make a new study, with a nonce of its own",
    )


def _epsilon(cost: Cost) -> str:
    return f"{cost.epsilon / UNITS:.4g}"


def _delta(cost: Cost) -> str:
    return f"{cost.delta / DELTA_UNITS:.3g}"


def _digits(total: Total, whole: Cost) -> str:
    return f"{total.composed(whole.delta):.4g}"


def _state(population: Population, charged: Total) -> str:
    epsilon, delta = population.epsilon / UNITS, population.delta / DELTA_UNITS
    composed = charged.composed(population.delta, basic_only=population.basic_only)
    taken = f"epsilon = {composed:.4g} is spent or reserved" if composed < inf else "delta is used up"
    return f"its limit is epsilon = {epsilon:.4g} and delta = {delta:.3g}, of which {taken}"


def _some(names: Iterable[str], words: str, none: str) -> str:
    found = ", ".join(sorted(names))
    return f"{words} {found}" if found else none
