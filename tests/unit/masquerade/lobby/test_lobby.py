"""A lobby: sites get one study and one code, and whatever a dishonest coordinator changes ends it."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from masquerade.lobby import guest as guest_module
from masquerade.lobby.code import NUMBER_BYTES, Seat, code_of, commitment, read_code, transcript
from masquerade.lobby.guest import Guest, Notes, vouch_text
from masquerade.lobby.invitation import Invitation
from masquerade.lobby.messages import SeatShown, Shown, Word, unpack
from masquerade_core.errors import BadInput, MasqueradeError, ProtocolViolation, RefusedLocally, RunFailed
from masquerade_core.study import CHARLIE, Study
from tests.host_helpers import new_keys
from tests.lobby_helpers import NOW, Room, studied
from tests.messages import says

if TYPE_CHECKING:
    from collections.abc import Callable

STRANGE = new_keys()


def changed(shown: Shown, name: str, **fields: object) -> Shown:
    """Return an answer in which one seat is another."""
    seats = tuple(seat.model_copy(update=fields) if seat.name == name else seat for seat in shown.seats)
    return shown.model_copy(update={"seats": seats})


# --- The honest course ------------------------------------------------------------------


def test_everybody_gets_one_study_and_one_code() -> None:
    room = Room()
    room.go()
    codes = {guest.code for guest in room.guests.values()}
    assert len(codes) == 1
    assert len(codes.pop()) == len("XXXX-XXXX")
    assert {guest.text for guest in room.guests.values()} == {room.host.study}
    assert [event for event, _ in room.events] == ["came"] * 3
    for name, guest in room.guests.items():
        assert guest.study is not None
        assert guest.study.party(name).key == room.keys[name].public
        assert guest.unheard == guest.others


def test_two_lobbies_over_the_same_keys_have_two_codes() -> None:
    room = Room()
    room.go()
    first = room.guests["p1"].code
    room.host = room.opened()
    room.guests = {name: room.guest(name) for name in room.names}
    room.go()
    assert room.guests["p1"].code != first


def test_a_number_leaves_only_after_all_commitments_are_there() -> None:
    room = Room()
    room.ask("p1")
    room.ask("p2")
    assert [room.guests[name].word().number for name in ("p1", "p2")] == [b"", b""]
    assert room.guests["p1"].missing == ("p2", "p3")
    room.ask("p3")
    room.ask("p1")
    assert room.guests["p1"].word().number == room.guests["p1"].notes.number
    assert room.guests["p1"].code == ""
    assert room.guests["p1"].notes.tries == 1


def test_what_was_heard_counts_however_it_was_typed() -> None:
    room = Room()
    room.go()
    guest = room.guests["p1"]
    guest.hear(guest.code.lower().replace("-", " "), ["p2"])
    assert set(guest.unheard) == {"p3"}
    guest.hear(guest.code.replace("0", "O").replace("1", "l"), ["p3"])
    assert set(guest.unheard) == set()
    with pytest.raises(BadInput):
        guest.hear(guest.code, ["p1"])


def test_a_process_that_starts_again_goes_on_with_its_notes() -> None:
    room = Room()
    room.go()
    before = room.guests["p1"]
    before.hear(before.code, ["p2"])
    notes = Notes.of(before.notes.to_json())
    room.guests["p1"] = Guest(room.invitations["p1"], room.keys["p1"], notes, secrets.token_bytes)
    room.host = room.opened()  # and so does the coordinator's
    assert room.guests["p1"].code == ""
    room.go()
    assert room.guests["p1"].code == before.code == room.guests["p3"].code
    assert room.guests["p1"].unheard == ("p3",)


def test_when_all_have_said_yes_everybody_learns_it() -> None:
    room = Room()
    room.go()
    for guest in room.guests.values():
        guest.ready = True
    room.go(2)
    assert room.host.all_ready
    assert all(guest.all_ready for guest in room.guests.values())


# --- Vouching -----------------------------------------------------------------------------


@pytest.mark.parametrize(("colluders", "vouched"), [(0, True), (1, True), (2, False)])
def test_more_sites_than_collude_may_vouch_for_one_that_was_not_heard(colluders: int, vouched: bool) -> None:
    room = Room(("p1", "p2", "p3", "p4"), colluders)
    room.go()
    code = room.guests["p1"].code
    room.guests["p1"].hear(code, ["p2", "p3"])
    for name in ("p2", "p3"):
        room.guests[name].hear(code, ["p4"])
    room.go(2)
    assert room.guests["p1"].unheard == (() if vouched else ("p4",))
    assert set(room.guests["p1"].vouched) == ({"p4"} if vouched else set())


def test_a_vouch_of_a_site_that_was_not_heard_counts_nothing() -> None:
    room = Room(("p1", "p2", "p3", "p4"))
    room.go()
    room.guests["p2"].hear(room.guests["p1"].code, ["p3", "p4"])
    room.go(2)
    assert room.guests["p1"].unheard == ("p2", "p3", "p4")


def test_charlie_cannot_vouch_in_somebodys_name() -> None:
    room = Room(("p1", "p2", "p3"))
    room.go()
    room.guests["p1"].hear(room.guests["p1"].code, ["p2"])
    told = room.guests["p1"].notes.transcript
    forged = room.charlie.signing.sign(vouch_text(room.lobby_id, told, ("p3",)))
    room.tamper = lambda _to, shown: changed(shown, "p2", heard=("p3",), vouch=forged)
    room.ask("p1")
    assert room.guests["p1"].unheard == ("p3",)


def test_a_vouch_of_another_lobby_counts_nothing() -> None:
    room = Room(("p1", "p2", "p3"))
    room.go()
    room.guests["p1"].hear(room.guests["p1"].code, ["p2"])
    old = room.keys["p2"].signing.sign(vouch_text(secrets.token_bytes(16), bytes(32), ("p3",)))
    room.tamper = lambda _to, shown: changed(shown, "p2", heard=("p3",), vouch=old)
    room.ask("p1")
    assert room.guests["p1"].unheard == ("p3",)


def test_keys_that_were_compared_before_count_under_their_name_alone() -> None:
    room = Room()
    known = (("p2", str(room.keys["p2"].public)), ("p2", str(room.keys["p3"].public)))
    room.guests["p1"] = room.guest("p1", known=known)
    room.go()
    assert room.guests["p1"].known == ("p2",)
    assert room.guests["p1"].unheard == ("p3",)


# --- Tokens -----------------------------------------------------------------------------------


def test_a_token_that_somebody_else_used_is_refused_and_the_coordinator_hears_of_it() -> None:
    room = Room()
    thief = room.guest("p1", new_keys())
    room.host.answer(thief.word(), NOW)
    with pytest.raises(RefusedLocally) as caught:
        room.ask("p1")
    assert says(caught.value.message, "invitation_used", "p1")
    assert ("used", "p1") in room.events


def test_whoever_steals_a_token_sees_nothing_before_all_others_came() -> None:
    room = Room()
    for name in ("p2", "p3"):
        room.ask(name)
    wrong = room.guest("p1").word().model_copy(update={"token": bytes(16)})
    assert room.host.answer(wrong, NOW) == Shown(refused="unknown")
    assert room.host.answer(wrong.model_copy(update={"name": "p9"}), NOW) == Shown(refused="unknown")
    room.guests["p1"] = room.guest("p1", new_keys())
    room.go()
    assert room.guests["p1"].code == room.guests["p2"].code  # and the real p1, whom the others call, has none


def test_an_invitation_ends_but_not_for_who_came_in_time() -> None:
    room = Room()
    room.ask("p1")
    room.ask("p1", NOW + 101)
    with pytest.raises(BadInput) as caught:
        room.ask("p2", NOW + 101)
    assert says(caught.value.message, "invitation_ended", ...)


def test_a_line_survives_its_way_or_is_refused_whole() -> None:
    line = str(Room().invitations["p1"])
    assert str(Invitation.parse(f" {line}\n")) == line
    assert Invitation.parse(line).charlie == Invitation.parse(line).charlie
    at = line.index("/") + 1
    for broken in (
        line[:-1],
        line.replace("p1@", "p2@"),
        line[:at] + ("A" if line[at] != "A" else "B") + line[at + 1 :],
    ):
        with pytest.raises(BadInput) as caught:
            Invitation.parse(broken)
        assert line[at : at + 20] not in caught.value.message
    assert "token" not in repr(Invitation.parse(line))


# --- A dishonest coordinator ----------------------------------------------------------------


def fails(room: Room, name: str = "p1") -> MasqueradeError:
    """Let everybody ask until a site ends; return its error."""
    with pytest.raises(MasqueradeError) as caught:
        room.go()
    assert room.guests[name].code == ""
    return caught.value


def own(shown: Shown) -> SeatShown:
    return shown.seats[0]


TAMPERED: dict[str, Callable[[Room, Shown], Shown]] = {
    "a key": lambda _room, shown: changed(shown, "p2", keys=str(STRANGE.public)),
    "a key in the study": lambda room, shown: shown.model_copy(
        update={
            "study": studied(
                {**{name: key.public for name, key in room.keys.items()}, "p2": STRANGE.public}, room.charlie.public
            )
        }
    ),
    "half a key": lambda room, shown: changed(
        shown, "p2", keys=str(replace(room.keys["p2"].public, curve=STRANGE.public.curve))
    ),
    "a reflected commitment": lambda _room, shown: changed(shown, "p2", commitment=own(shown).commitment),
    "a number": lambda _room, shown: changed(shown, "p2", number=bytes(32)) if own(shown).number else shown,
    "this site's own seat": lambda _room, shown: changed(shown, "p1", keys=str(STRANGE.public)),
    "this site itself": lambda room, shown: changed(shown, "p1", keys=str(STRANGE.public)).model_copy(
        update={
            "study": studied(
                {**{name: key.public for name, key in room.keys.items()}, "p1": STRANGE.public}, room.charlie.public
            )
        }
    ),
    "the order": lambda _room, shown: shown.model_copy(update={"seats": shown.seats[::-1]}),
    "Charlie": lambda room, shown: shown.model_copy(
        update={"study": studied({name: key.public for name, key in room.keys.items()}, STRANGE.public)}
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_does_not_fit_together_is_charlies_fault(what: str) -> None:
    room = Room()
    room.tamper = lambda to, shown: TAMPERED[what](room, shown) if to == "p1" and shown.seats else shown
    error = fails(room)
    assert isinstance(error, ProtocolViolation)
    assert error.peer == CHARLIE
    assert bool(room.guests["p1"].notes.shown_for) == (what == "a number")  # what can be seen is seen before


def test_a_commitment_that_changes_after_the_number_was_shown_ends_the_try() -> None:
    room = Room()
    room.tamper = lambda to, shown: (
        changed(shown, "p2", commitment=bytes(32)) if to == "p1" and shown.seats and own(shown).number else shown
    )
    error = fails(room)
    assert isinstance(error, RunFailed)
    assert says(error.message, "lobby_changed")


def test_a_study_changed_after_the_number_was_shown_ends_the_try_and_the_next_has_a_number_of_its_own() -> None:
    room = Room()
    room.go()
    number = room.guests["p1"].notes.number
    keys = {name: key.public for name, key in room.keys.items()}
    other = studied(keys, room.charlie.public, deadline=61.0)
    room.tamper = lambda _to, shown: shown.model_copy(update={"study": other})
    with pytest.raises(RunFailed) as caught:
        room.ask("p1")
    assert says(caught.value.message, "lobby_changed")
    guest = room.guests["p1"]
    assert guest.notes.number != number
    assert (guest.notes.tries, guest.notes.shown_for, guest.code) == (1, b"", "")


def test_a_site_that_comes_with_a_new_number_makes_all_begin_anew() -> None:
    room = Room()
    room.go()
    room.guests["p2"] = room.guest("p2")
    room.ask("p2")
    assert ("anew", "p2") in room.events
    for name in ("p1", "p3"):
        with pytest.raises(RunFailed) as caught:
            room.ask(name)
        assert says(caught.value.message, "lobby_began_anew")
    room.go()
    assert len({guest.code for guest in room.guests.values()} - {""}) == 1
    assert room.guests["p1"].notes.tries == 2


def test_another_code_than_this_sites_ends_the_try() -> None:
    room = Room()
    room.go()
    guest = room.guests["p1"]
    wrong = "0" if guest.code[0] != "0" else "1"
    with pytest.raises(RefusedLocally) as caught:
        guest.hear(wrong + guest.code[1:], ["p2"])
    assert says(caught.value.message, "another_code", "p2")
    assert (guest.notes.heard, guest.notes.shown_for) == ([], b"")


def test_junk_is_refused_without_a_word_of_it() -> None:
    for junk in (b"", b"\xc1", b"\x80", bytes(100), b"\xdd\xff\xff\xff\xff"):
        with pytest.raises(ProtocolViolation):
            unpack(Word, junk, "a site")


# --- The man in the middle -------------------------------------------------------------------

BITS = 16


class Middle:
    """Charlie plays p2 towards p1, and p1 towards p2, and wants both to have one code."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.room = Room(("p1", "p2"))
        self.false = {name: new_keys() for name in self.room.names}
        true = {name: self.room.keys[name].public for name in self.room.names}
        false = {name: keys.public for name, keys in self.false.items()}
        self.rosters = {"p1": {"p1": true["p1"], "p2": false["p2"]}, "p2": {"p1": false["p1"], "p2": true["p2"]}}
        self.studies = {to: studied(keys, self.room.charlie.public) for to, keys in self.rosters.items()}
        self.digests = {to: Study.parse(text).digest() for to, text in self.studies.items()}

    def shown(self, to: str, numbers: dict[str, bytes], own: Word, committed: bytes = b"") -> Shown:
        """Return the seats that he shows one site: its own, and the invented one."""
        other = "p2" if to == "p1" else "p1"
        keys = self.false[other].public
        said = committed or commitment(self.room.lobby_id, other, keys, numbers[to])
        seats = {
            to: SeatShown(name=to, keys=own.keys, commitment=own.commitment, number=own.number),
            other: SeatShown(name=other, keys=str(keys), commitment=said, number=numbers[to] if own.number else b""),
        }
        return Shown(study=self.studies[to], seats=(seats["p1"], seats["p2"]))

    def code(self, guest: Guest) -> str:
        return code_of(guest.notes.transcript, self.bits)

    def view(self, to: str, own: bytes = b"", invented: bytes = b"") -> str:
        """Return the code of one site, from its own number and the invented one; each is drawn if it is not given."""
        numbers = {to: own or secrets.token_bytes(NUMBER_BYTES)}
        numbers["p2" if to == "p1" else "p1"] = invented or secrets.token_bytes(NUMBER_BYTES)
        lobby, keys = self.room.lobby_id, self.rosters[to]
        seats = [
            Seat(name, keys[name], commitment(lobby, name, keys[name], n), n) for name, n in sorted(numbers.items())
        ]
        return code_of(transcript(lobby, self.digests[to], seats), self.bits)

    def one_try(self) -> bool:
        """Play by the rules, with invented numbers; say whether the codes agree."""
        numbers = {name: secrets.token_bytes(NUMBER_BYTES) for name in self.room.names}
        codes = set()
        for name in self.room.names:
            guest = self.room.guest(name)
            for _ in range(2):
                guest.take(self.shown(name, numbers, guest.word()))
            codes.add(self.code(guest))
        return len(codes) == 1

    def searched(self, most: int) -> bool:
        """Show p1 an opening that was searched for after p2's code was there."""
        numbers = {name: secrets.token_bytes(NUMBER_BYTES) for name in self.room.names}
        first, second = (self.room.guest(name) for name in self.room.names)
        for _ in range(2):
            second.take(self.shown("p2", numbers, second.word()))
        first.take(self.shown("p1", numbers, first.word()))
        said = commitment(self.room.lobby_id, "p2", self.false["p2"].public, numbers["p1"])
        assert first.study is not None
        digest, own = first.study.digest(), first.word()
        mine = Seat("p1", self.room.keys["p1"].public, own.commitment, own.number)
        wanted, start = self.code(second), secrets.randbits(200)
        for tried in range(most):
            number = (start + tried).to_bytes(NUMBER_BYTES)
            invented = Seat("p2", self.false["p2"].public, said, number)
            if code_of(transcript(self.room.lobby_id, digest, (mine, invented)), self.bits) == wanted:
                first.take(self.shown("p1", {**numbers, "p1": number}, own, said))
                return self.code(first) == self.code(second)
        return False


def test_a_coordinator_in_the_middle_guesses_right_as_often_as_chance_has_it() -> None:
    """At 3 bits, 100 tries find 12.5 matches on average, with a standard deviation of 3.3."""
    middle = Middle(3)
    found = sum(middle.one_try() for _ in range(100))
    assert 1 <= found <= 33


def test_at_16_bits_one_guess_in_2_to_the_16_is_right() -> None:
    """2^24 tries find 256 matches on average.

    What p1 sees does not depend on what p2 sees, since the coordinator commits to the number that he invents before he
    reads an honest one. So each of 2^12 views of p1 makes a try with each of 2^12 views of p2. The number of matches
    has a standard deviation of 16. It is outside of 160 to 352, six of them to each side, less than once in 10^6.
    """
    middle, count = Middle(BITS), 1 << 12
    views = [Counter(middle.view(name) for _ in range(count)) for name in middle.room.names]
    found = sum(times * views[1][code] for code, times in views[0].items())
    assert 160 <= found <= 352


def test_a_view_that_is_counted_is_what_a_site_makes_of_the_same_numbers() -> None:
    middle = Middle(BITS)
    for name in middle.room.names:
        guest, invented = middle.room.guest(name), secrets.token_bytes(NUMBER_BYTES)
        for _ in range(2):
            guest.take(middle.shown(name, {name: invented}, guest.word()))
        assert middle.view(name, guest.notes.number, invented) == middle.code(guest)


def test_a_number_that_is_searched_for_opens_no_commitment(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the code cut to 16 bits a search finds a match at once. The commitment alone stands in its way."""
    middle = Middle(BITS)
    with pytest.raises(ProtocolViolation):
        middle.searched(1 << 20)

    def believed(_lobby: bytes, name: str, keys: object, number: bytes) -> bytes:
        seen = next(seat for seat in shown if seat.name == name)
        return seen.commitment if seen.number == number else commitment(_lobby, name, keys, number)  # type: ignore[arg-type]

    shown: list[Seat] = []
    take = Guest._take_numbers

    def believing(self: Guest, study: object, seats: tuple[Seat, ...]) -> None:
        shown[:] = seats
        with monkeypatch.context() as patched:
            patched.setattr(guest_module, "commitment", believed)
            take(self, study, seats)  # type: ignore[arg-type]

    monkeypatch.setattr(Guest, "_take_numbers", believing)
    assert Middle(BITS).searched(1 << 20)


def test_letters_that_look_alike_are_one() -> None:
    assert read_code(" o1il-ab cd ") == "0111-ABCD"
    assert code_of(bytes(32)) == "0000-0000"
    assert code_of(b"\xff" * 32) == "ZZZZ-ZZZZ"
