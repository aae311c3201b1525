"""The part of a new study about parties that fall silent: its section ``[dropouts]``, and the price of it."""

from collections.abc import Mapping
from typing import Any

from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from masquerade_core.study.text import to_toml
from masquerade_protocols import entry_of

__all__ = ["PRICE", "dropout_options", "dropout_section", "price_of"]

PRICE = "{price of the dropouts}"
"""Stands in a draft's text where the price will, since it follows from the whole study."""

_RETRIES, _PATIENCE = 1, 30.0
_NOTES = {
    "method": "How the run goes on: by sums that are made again, or by masks that the others can remove.",
    "min_survivors": "The minimum number of parties for the run to continue. The noise is sized for it.",
    "retries": "The number of sums that may be repeated in the whole run. The noise pays for all of them.",
    "patience_seconds": "The seconds that Charlie waits for a contribution before he continues without it.",
}
_HEAD = f"""
# The run continues without parties that fall silent. {{others}}
# This costs {PRICE} more noise than a run that needs every party to the end.
[dropouts]
"""
_AGAIN = _HEAD.replace("{others}", "The others then contribute again, with fresh noise.")
_DOUBLE_HEAD = _HEAD.replace("{others}", "The others then remove the masks of these.")


def dropout_options(
    min_survivors: int | None, retries: int | None, patience: float | None, *, double_masks: bool = False
) -> dict[str, Any]:
    """Return the section's keys and values from the options of ``study new``; none where nobody asked for it.

    Raises
    ------
    BadInput
        An option was given that says nothing without ``--min-survivors``, or nothing under double masks.
    """
    if min_survivors is None:
        if retries is not None or patience is not None or double_masks:
            raise BadInput(
                "--retries, --patience or --double-masks was given, but no --min-survivors: without it a run needs "
                "every party",
                "add --min-survivors, the fewest parties with which the run goes on",
            )
        return {}
    if double_masks and retries is not None:
        raise BadInput(
            "--retries was given with --double-masks, under which no sum is made again", "leave one of the two out"
        )
    if double_masks:
        return {
            "method": "double-masks",
            "min_survivors": min_survivors,
            "patience_seconds": _PATIENCE if patience is None else float(patience),
        }
    return {
        "min_survivors": min_survivors,
        "retries": _RETRIES if retries is None else retries,
        "patience_seconds": _PATIENCE if patience is None else float(patience),
    }


def dropout_section(values: Mapping[str, Any]) -> str:
    """Return the section as commented TOML, or nothing where there are no values."""
    if not values:
        return ""
    lines = to_toml({"dropouts": dict(values)}).partition("\n")[2].strip().splitlines()
    head = _DOUBLE_HEAD if values.get("method") == "double-masks" else _AGAIN
    return head + "".join(f"# {_NOTES[line.partition(' = ')[0]]}\n{line}\n" for line in lines)


def price_of(study: Study) -> str:
    """Return how much more noise a study's ``[dropouts]`` cost: "21 %"."""
    return f"{100 * entry_of(study).dropout_price(study):.0f} %"
