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
    HopState,
    JoinState,
    Turn,
)
from tests import ROOT
from tests.messages import raises, says, sentence

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
    hop = HopState(end, state)
    assert hop.may_send(turn) == (turn in legal)
    if turn in legal:
        hop.send(turn)
        assert hop.now is legal[turn]
    else:
        with raises(LocalProtocolError, "bug_sends_out_of_turn", ..., repr(state.value)):
            hop.send(turn)
        assert hop.now is state


@pytest.mark.parametrize(("end", "state", "turn"), CELLS)
def test_what_the_table_lists_may_be_heard_and_all_else_names_the_sender(
    end: End, state: JoinState, turn: Turn
) -> None:
    legal = RECEIVES[end].get(state, {})
    hop = HopState(end, state)
    if turn in legal:
        hop.receive(turn, "p1")
        assert hop.now is legal[turn]
        return
    with pytest.raises(ProtocolViolation) as caught:
        hop.receive(turn, "p1")
    assert (caught.value.peer, caught.value.suspects) == ("p1", ())
    with pytest.raises(ProtocolViolation) as caught:
        hop.receive(turn, "charlie", ("p2", "charlie"))
    assert (caught.value.peer, caught.value.suspects) == ("", ("p2", "charlie"))
    assert says(str(caught.value), "out_of_turn", "p2 or charlie", ..., sentence("which_of_them"))
    assert hop.now is state


@pytest.mark.parametrize("event", list(HopEvent))
def test_an_event_that_is_not_listed_is_a_bug_here(event: HopEvent) -> None:
    for end in End:
        for state in JoinState:
            hop, legal = HopState(end, state), EVENTS[end].get(state, {})
            if event in legal:
                hop.note(event)
                assert hop.now is legal[event]
                continue
            with raises(LocalProtocolError, "bug_notes_out_of_turn", repr(event.value), repr(state.value)):
                hop.note(event)
            assert hop.now is state


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
                JoinState.MEETING,
                JoinState.SEATED,
                JoinState.DONE,
                JoinState.CLOSED,
                JoinState.REFUSED,  # from where only the end can be reached
                JoinState.PARTING,  # likewise
                JoinState.ENDED,
            }
        assert {then for _, then in steps(end, JoinState.PARTING)} == {JoinState.ENDED}
    assert {then for _, then in steps(End.PARTY, JoinState.REFUSED)} == {JoinState.ENDED}
