"""The table of a site at a terminal: what runs and what waits, for whom or for what, and for how long.

It is drawn from the folders, as ``masquerade site status`` reads them, below the lines of the log.
"""

from collections.abc import Iterator
from datetime import datetime

from masquerade_core.words import listed, printable
from masquerade_host.process.meter import in_words, spread, wrapped
from masquerade_party.serving.folders import Place
from masquerade_party.serving.standing import Standing, Study

__all__ = ["table"]

_INDENT = "  "


def table(found: Standing, now: float, columns: int, rows: int) -> list[str]:
    """Return the lines of a site's table; what has no room is counted in the last one.

    Parameters
    ----------
    found : Standing
        The site. Of what is refused and done, it has numbers alone.
    now : float
        Seconds of the system's clock.
    columns, rows : int
        The room. A word goes over two lines only if it is longer than one.
    """
    counts = {place: sum(study.item.place is place for study in found.studies) for place in Place} | dict(found.others)
    said = [f"{counts[place]} {word}" for place, word in _COUNTED.items() if counts[place]]
    lines = ["", *wrapped(f"The site has {listed(said)}." if said else "The site has no studies.", columns)]
    blocks = [list(_lines(study, now, columns)) for study in found.studies]
    for place, block in enumerate(blocks):
        last = place == len(blocks) - 1
        if len(lines) + len(block) + (not last) > rows:
            return [*lines, f"And {len(blocks) - place} more: see 'masquerade site status'."[:columns]]
        lines += block
    return lines


_COUNTED = {
    Place.RUNNING: "running", Place.INBOX: "in the inbox", Place.REFUSED: "refused", Place.DONE: "done",
}  # fmt: skip


def _lines(study: Study, now: float, columns: int) -> Iterator[str]:
    item, record, doing = study.item, study.record, study.doing
    name, state = f"{item.data}: {printable(item.name)}", record.state.value
    since = _seconds(record.changed, now)
    if since is not None:
        state += f" for {in_words(since)}"
    *above, left = wrapped(name, columns)
    yield from above
    if len(left) + 1 + len(state) > columns:
        yield left
        left = ""
    yield spread(left, state, columns)
    if item.place is Place.RUNNING:
        yield from wrapped(doing.progress, columns, _INDENT)
        for who in doing.late:
            yield spread(f"{_INDENT}waiting for {who}", in_words(doing.seconds), columns)
        if doing.late and doing.address:
            yield from wrapped(f"Charlie is at {doing.address}", columns, _INDENT)
    yield from wrapped(printable(record.message), columns, _INDENT)


def _seconds(text: str, now: float) -> float | None:
    """Return how long ago a record was written; None where it does not say."""
    try:
        return max(0.0, now - datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None
