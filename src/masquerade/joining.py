"""How a site joins by an invitation: keys, the lobby, its records, the code, the budget and a person's yes.

Three things are asked of a person: the code and from whom it was heard, the budget where this machine has none, and a
yes. Nothing about the records leaves this machine before the run.
"""

import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from masquerade.budgeting import budget_line
from masquerade.checks import Verdict
from masquerade.doctor import examine
from masquerade.lobby.code import NUMBER_BYTES
from masquerade.lobby.guest import Guest, Notes
from masquerade.lobby.invitation import Invitation
from masquerade.lobby.links import Caller
from masquerade.roster_view import whose_keys
from masquerade_core.errors import BadInput, RefusedLocally, RunFailed
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS
from masquerade_core.rng import SystemRng
from masquerade_core.study import Study
from masquerade_core.words import counted, listed
from masquerade_host.store.approving import all_approvals
from masquerade_host.store.budget import give_budget
from masquerade_host.store.keyfiles import Keys, load_keys
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.permissions import Approval, Compared
from masquerade_host.store.state import StateFolder, private_folder, write_private
from masquerade_protocols import protocol_of

__all__ = ["Answers", "Joining", "in_ten_lines", "keys_at", "looked_at"]

EPSILON, DELTA = 10.0, 1e-5
"""The budget that is proposed to a machine that has none."""

_WIDTH = 80
_LOOKED_AT = {"data", "policy"}  # of the doctor's checks: the lobby itself shows that the network works
_ENOUGH = "enough"


@dataclass(frozen=True)
class Answers:
    """The answers that a person gave on the command line, so that nobody asks for them.

    Parameters
    ----------
    code : str or None
        The code, as it was heard.
    heard : sequence of str
        From whom; "all" is everybody.
    unverified : bool
        Whether to go on without comparing any code.
    budget : float or None
        The epsilon of this machine's budget, where it has none.
    fingerprint : str or None
        That of the study, for a yes.
    by : str or None
        Who says yes.
    """

    code: str | None = None
    heard: Sequence[str] = ()
    unverified: bool = False
    budget: float | None = None
    fingerprint: str | None = None
    by: str | None = None


def keys_at(path: Path) -> tuple[Keys, bool]:
    """Return the keys in a file, and whether they were made now because there was none."""
    if path.exists():
        return load_keys(path), False
    return make_keys(path), True


class Joining:
    """One site's way through a lobby.

    Parameters
    ----------
    invitation : Invitation
    keys : Keys
    state : StateFolder
        Where this machine's budget and approvals are, and its notes of the lobby.
    caller : Caller
        Asks the lobby.
    say : callable
        Shows a line to the person.
    ask : callable
        Shows a question, and returns what was typed. It calls the function that it gets besides, about once a second
        until then: a site that waits for its person is still in the lobby.
    """

    def __init__(
        self,
        invitation: Invitation,
        keys: Keys,
        state: StateFolder,
        caller: Caller,
        say: Callable[[str], object],
        ask: Callable[[str, Callable[[], object]], str],
    ) -> None:
        self.keys = keys.public
        self._invitation = invitation
        self._state = state.made()
        self._caller = caller
        self._say = say
        self._asked = ask
        known = tuple(pair for given in all_approvals(state) for pair in _known_by(given))
        self.guest = Guest(invitation, keys, self._notes(), SystemRng().bytes, known)

    # --- The lobby --------------------------------------------------------------

    @property
    def _file(self) -> Path:
        return self._state.root / "lobbies" / f"{self._invitation.lobby.hex()}-{self._invitation.name}.json"

    def _notes(self) -> Notes:
        try:
            return Notes.of(json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Notes(SystemRng().bytes(NUMBER_BYTES))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{self._file} cannot be read, in which this site notes its tries in the lobby",
                "remove it, and ask the coordinator for a new lobby",
            ) from error

    def _keep(self) -> None:
        """Write the notes down: a number must never be shown for two studies."""
        try:
            private_folder(self._file.parent)
            write_private(self._file, json.dumps(self.guest.notes.to_json()))
        except OSError as error:
            raise RunFailed(
                f"{self._file} cannot be written: {error.strerror}", "see whether the disk is full, or read-only"
            ) from error

    def ask(self, question: str) -> str:
        """Ask the person, and stay in the lobby meanwhile."""
        return self._asked(question, self.once)

    def once(self) -> bool:
        """Ask the lobby once; say whether it answered.

        Raises
        ------
        MasqueradeError
            As :meth:`Guest.take` and :meth:`Caller.ask`. The notes are kept then as well.
        """
        self._keep()
        shown = self._caller.ask(self.guest.word())
        try:
            if shown is not None:
                self.guest.take(shown)
        finally:
            self._keep()
        return shown is not None

    def wait(self, there: Callable[[], bool], words: Callable[[], str], sleep: Callable[[], None]) -> None:
        """Ask the lobby until ``there`` says so; ``words`` says for whom this waits."""
        said = ""
        while True:
            answered = self.once()
            if there():
                return
            now = words() if answered else f"nobody answers at {self._invitation.address}; trying again"
            if now != said:
                self._say(now)
                said = now
            sleep()

    def gather(self, sleep: Callable[[], None]) -> Study:
        """Wait for the study and the code."""

        def words() -> str:
            if self.guest.missing:
                return f"waiting for {listed(self.guest.missing)} to join"
            return "everybody is there; waiting for the others' numbers"

        self.wait(lambda: bool(self.guest.code), words, sleep)
        return self.guest.agreed

    # --- The code ---------------------------------------------------------------

    def compare(self, answers: Answers) -> Compared:
        """Have a person compare the code, and return what it showed.

        Raises
        ------
        RefusedLocally
            It was another code; or nobody compared one, and nobody said that it should be so.
        """
        guest = self.guest
        if answers.unverified:
            return self._compared("")
        self._say(f"\nYour code is  {guest.code}\n")
        self._say(
            _filled(
                "Call each of the other sites, by a number that you had before this study. Read your code to them, and "
                f"let them read theirs. Each of {listed(guest.others)} that you do not hear counts as one more that "
                "sides with Charlie."
            )
        )
        if guest.notes.tries > 1:
            self._say(_filled(guest.tries_in_words()))
        if guest.known:
            self._say(f"You compared the keys of {listed(guest.known)} for an earlier study.")
        if answers.code is not None:
            self._hear(f"{answers.code} {' '.join(answers.heard)}")
            self.once()
            return self._compared(guest.code)
        while guest.unheard:
            typed = self.ask(
                f"Type the code that you heard, and from whom (a name, several, or all); or '{_ENOUGH}' to go on "
                f"without {listed(guest.unheard)}: "
            )
            if typed.strip().lower() == _ENOUGH:
                break
            try:
                self._hear(typed)
            except BadInput as error:
                self._say(f"{error.message}; {error.hint}")
            self.once()
            for name, by in guest.vouched.items():
                self._say(f"{listed(by)}, whom you heard, vouch for {name}.")
        if guest.notes.heard or guest.known:
            return self._compared(guest.code)
        raise RefusedLocally(
            "no code was compared, so Charlie alone says who the other sites are. Nothing was approved",
            "start the same command again when you have heard the others; --unverified goes on without, and the "
            "statement then says so",
        )

    def _hear(self, typed: str) -> None:
        code, *names = typed.replace(",", " ").split() or [""]
        while names and len(code.replace("-", "")) < len(self.guest.code.replace("-", "")):
            code += names.pop(0)  # it was typed with blanks
        if not names:
            raise BadInput("it was not said from whom the code was heard", "type the names behind the code, or all")
        everybody = [name for name in names if name.lower() == "all"]
        try:
            self.guest.hear(code, self.guest.others if everybody else names)
        finally:
            self._keep()

    def _compared(self, code: str) -> Compared:
        guest = self.guest
        keys = {seat.name: str(seat.keys) for seat in guest.seats}
        if not code:
            return Compared(code="", tries=guest.notes.tries, unheard=guest.others)
        return Compared(
            code=code,
            tries=guest.notes.tries,
            heard={name: keys[name] for name in guest.notes.heard},
            known={name: keys[name] for name in guest.known},
            vouched=dict(guest.vouched),
            unheard=guest.unheard,
        )

    # --- The budget -------------------------------------------------------------

    def budget(self, study: Study, answers: Answers, by: str) -> None:
        """Give this machine a budget where it has none."""
        if self._state.ledger.exists():
            return
        spends = protocol_of(study).spends(study)
        least = spends.epsilon / UNITS
        proposed = max(EPSILON, least)
        typed = answers.budget
        if typed is None:
            said = self.ask(
                f"This machine has no privacy budget yet. This study would take epsilon = {least:.4g} of it. How much "
                f"may all studies together take? Epsilon [{proposed:g}]: "
            ).strip()
            try:
                typed = float(said) if said else proposed
            except ValueError:
                raise BadInput(f"{said!r} is no number", "start the same command again, and type a number") from None
        delta = max(DELTA, spends.delta / DELTA_UNITS)
        with closing(give_budget(self._state, "default", typed, delta, by=by)):
            self._say(f"The budget of this machine is epsilon = {typed:g}, delta = {delta:g}.")


def _known_by(given: Approval) -> Iterator[tuple[str, str]]:
    if given.compared is not None:
        yield from given.compared.heard.items()
        yield from given.compared.known.items()


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def looked_at(file: Path, data: Path | str, key: Path, state: StateFolder, accept: Sequence[str]) -> tuple[str, ...]:
    """Return what the doctor says of this machine's records and rules, as lines. All of it stays on this screen.

    Raises
    ------
    BadInput
        The records cannot be used, or the rules do not allow the study.
    """
    found = []
    for check in examine(file, key=key, data=data, accept=accept, state=state):
        if check.name in _LOOKED_AT:
            if check.verdict is Verdict.FAIL:
                raise BadInput(check.message, check.hint)
            found.append(f"{check.name.capitalize()}: {check.message}.")
    return tuple(found)


def in_ten_lines(
    study: Study, me: str, file: Path, found: Sequence[str], compared: Compared, state: StateFolder
) -> Iterator[str]:
    """Yield a study in about ten lines, for the person who says yes or no.

    Parameters
    ----------
    study : Study
    me : str
        This party.
    file : Path
        The study's.
    found : sequence of str
        What :func:`looked_at` returned.
    compared : Compared
        Whose keys were compared.
    state : StateFolder
    """
    protocol = protocol_of(study)
    explained = protocol.explain(study)
    others = listed([name for name in study.names if name != me])
    yield f"The study {study.study.name!r}, in which you are {me}, together with {others}."
    yield f"It learns {study.label.name!r} from {counted(len(study.features), 'column')}, by {protocol.name}."
    for name, text in study.study.declared:
        yield f"{name.capitalize()}, as the coordinator declares it: {text}"
    for points in (explained.leaves, explained.collusion, explained.cost):
        yield from points[:1]
    yield from whose_keys(compared, [claim.to_json() for claim in protocol.statement(study)])
    yield from found
    if (budget := budget_line(state, study, protocol, me)) is not None:
        yield f"Budget: {budget.text}."
    yield f"The study's fingerprint is {study.fingerprint()}. All of it: masquerade study show {file}"
