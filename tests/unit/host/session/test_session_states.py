"""The table of session states: what it forbids, what it lets through, and that the page shows it as it is."""

from collections.abc import Iterator

import pytest

from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_host.session.states import (
    EVENTS,
    RECEIVES,
    SENDS,
    End,
    HopEvent,
    JoinState,
    Turn,
    after,
    may_send,
    received,
    sending,
)
from tests import ROOT

PAGE = ROOT / "docs" / "sessions.md"
OTHER = {End.PARTY: End.CHARLIE, End.CHARLIE: End.PARTY}
CELLS = [(end, state, turn) for end in End for state in JoinState for turn in Turn]


# --- The page -------------------------------------------------------------------------


def steps(end: End, state: JoinState) -> Iterator[tuple[str, JoinState]]:
    """Every step out of a state, in words, with the state after it."""
    for how, rules in (("sends", SENDS), ("hears", RECEIVES)):
        yield from ((f"{how} {turn.words}", then) for turn, then in rules[end].get(state, {}).items())
    yield from ((event.value, then) for event, then in EVENTS[end].get(state, {}).items())


def drawn(end: End) -> str:
    """The states of one end as a Mermaid diagram; steps that stay in a state are left to the table."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {JoinState.IDLE.value}"]
    for state in JoinState:
        arrows: dict[JoinState, list[str]] = {}
        for what, then in steps(end, state):
            if then is not state:
                arrows.setdefault(then, []).append(what)
        lines += [f"    {state.value} --> {then.value}: {', '.join(what)}" for then, what in arrows.items()]
    return "\n".join([*lines, "```"])


def tabled(end: End) -> str:
    """Every legal frame of one end as a table."""
    lines = [f"| {end.value} is | may send | may hear |", "|---|---|---|"]
    for state in JoinState:
        sends, hears = (", ".join(t.words for t in rules[end].get(state, {})) for rules in (SENDS, RECEIVES))
        if list(steps(end, state)):
            lines.append(f"| {state.value} | {sends or '-'} | {hears or '-'} |")
    return "\n".join(lines)


@pytest.mark.parametrize("draw", [drawn, tabled])
@pytest.mark.parametrize("end", list(End))
def test_the_page_shows_the_table_as_it_is(end: End, draw: object) -> None:
    shown = drawn(end) if draw is drawn else tabled(end)
    assert shown in PAGE.read_text(encoding="utf-8"), f"docs/sessions.md should hold:\n\n{shown}\n"


# --- Look-ups -------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "state", "turn"), CELLS)
def test_what_the_table_lists_may_be_sent_and_all_else_is_a_bug_here(end: End, state: JoinState, turn: Turn) -> None:
    legal = SENDS[end].get(state, {})
    assert may_send(end, state, turn) == (turn in legal)
    if turn in legal:
        assert sending(end, state, turn) is legal[turn]
    else:
        with pytest.raises(
            LocalProtocolError, match=f"tried to send .* while its connection is '{state.value}'; allowed"
        ):
            sending(end, state, turn)


@pytest.mark.parametrize(("end", "state", "turn"), CELLS)
def test_what_the_table_lists_may_be_heard_and_all_else_names_the_sender(
    end: End, state: JoinState, turn: Turn
) -> None:
    legal = RECEIVES[end].get(state, {})
    if turn in legal:
        assert received(end, state, turn, "p1") is legal[turn]
        return
    with pytest.raises(ProtocolViolation, match=r"p1 sent .* out of turn") as caught:
        received(end, state, turn, "p1")
    assert (caught.value.peer, caught.value.suspects) == ("p1", ())
    with pytest.raises(ProtocolViolation, match=r"p2 or charlie sent .* nobody can tell which of them") as caught:
        received(end, state, turn, "charlie", ("p2", "charlie"))
    assert (caught.value.peer, caught.value.suspects) == ("", ("p2", "charlie"))


def test_an_event_that_is_not_listed_changes_nothing() -> None:
    for end in End:
        for state in JoinState:
            for event in HopEvent:
                assert after(end, state, event) is EVENTS[end].get(state, {}).get(event, state)
    assert after(End.PARTY, JoinState.SEATED, HopEvent.LOST) is JoinState.SEATED


# --- Sense ----------------------------------------------------------------------------


@pytest.mark.parametrize("end", list(End))
def test_every_state_that_is_used_can_be_reached_and_the_run_can_end_from_it(end: End) -> None:
    def reached(start: JoinState) -> set[JoinState]:
        seen, frontier = set[JoinState](), [start]
        while frontier:
            if (state := frontier.pop()) not in seen:
                seen.add(state)
                frontier += [then for _, then in steps(end, state)]
        return seen

    used = {state for state in JoinState if list(steps(end, state))}
    assert used <= reached(JoinState.IDLE)
    for state in used:
        assert reached(state) & {JoinState.CLOSED, JoinState.ENDED}


@pytest.mark.parametrize("end", list(End))
def test_what_one_end_may_send_the_other_may_hear_in_some_state_and_the_other_way_round(end: End) -> None:
    """Charlie's words for a hello that is repeated, late or foreign are one word at the party, who says hello."""
    hellos = (Turn.SAME_HELLO, Turn.STALE_HELLO, Turn.FOREIGN_HELLO)
    one = dict.fromkeys(hellos, Turn.HELLO) | {Turn.LEAVE: Turn.ABORT}
    said = {turn for turns in SENDS[end].values() for turn in turns}
    heard = {one.get(turn, turn) for turns in RECEIVES[OTHER[end]].values() for turn in turns}
    assert said == heard


def test_once_the_roster_is_out_nothing_starts_anew() -> None:
    for end in End:
        for state in (s for s in JoinState if s.has_roster):
            assert {then for _, then in steps(end, state)} <= {
                JoinState.SEATED,
                JoinState.DONE,
                JoinState.CLOSED,
                JoinState.REFUSED,  # from where only the end can be reached
                JoinState.ENDED,
            }
    assert {then for _, then in steps(End.PARTY, JoinState.REFUSED)} == {JoinState.ENDED}
