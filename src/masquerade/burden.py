"""The cost of a large run to lines and machines, in words."""

from masquerade_protocols.entry import Cost

__all__ = ["burden_of"]

_LARGE = 10_000_000  # bytes


def burden_of(cost: Cost, K: int) -> str:
    """Return what a run of K parties asks of lines and machines; "" where a party's part is small.

    It is large from 10 MB on that a party sends and receives.
    """
    if cost.sent + cost.received < _LARGE:
        return ""
    sent, received, charlie_sends, charlie_receives = map(
        _megabytes, (cost.sent, cost.received, K * cost.received, K * cost.sent)
    )
    return (
        f"Each party sends about {sent} and receives about {received}; Charlie receives {charlie_receives} and "
        f"sends {charlie_sends}. Beside its records, a party needs up to {_megabytes(cost.memory)} of memory, and "
        "so does Charlie."
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
