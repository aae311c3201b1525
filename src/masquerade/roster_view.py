"""Whose the parties' keys are, as far as a site that joined by an invitation knows it.

It stands beside the privacy statement and not in it: the statement is everybody's, and this is one site's own.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import RenderableType

from masquerade.layout import heading, paragraphs
from masquerade_core.privacy.statement import FOLLOWS, digits
from masquerade_core.words import listed
from masquerade_host.store.permissions import Compared
from masquerade_host.store.results import APPROVAL

__all__ = ["compared_in", "roster_report", "whose_keys"]


def whose_keys(compared: Compared, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return whose keys this site compared, and what follows for the statement, as sentences.

    Parameters
    ----------
    compared : Compared
    rows : sequence of mapping
        Of the study's statement.
    """
    if not compared.code:
        named = "Charlie named the parties: this site compared no code, so he may play all of them but this one."
        return (f"{named} {_against_all(rows)}",)
    sure = [f"{listed(tuple(compared.heard))} read the code to this site"] if compared.heard else []
    if compared.known:
        sure.append(f"the keys of {listed(tuple(compared.known))} are those of an earlier study")
    sure += [f"{listed(by)} vouch for {name}" for name, by in compared.vouched.items()]
    tries = "there was one" if compared.tries == 1 else f"there were {compared.tries}"
    told = f"{'; '.join(sure)}. In each try, a dishonest coordinator guesses the code with probability 2^-40; {tries}."
    told = told[:1].upper() + told[1:]
    if not compared.unheard:
        return (told,)
    if len(compared.unheard) == 1:
        said = f"This site did not hear {listed(compared.unheard)}, so count one more party that sides with Charlie."
    else:
        more = len(compared.unheard)
        said = (
            f"This site did not hear {listed(compared.unheard)}, so count {more} more parties that side with Charlie."
        )
    return (told, f"{said} {_against_all(rows)}")


def _against_all(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the bound that needs no other party to be honest: that of the largest group with Charlie."""
    groups = [row for row in rows if row["view"].startswith("Charlie with") and row["adversary"] == FOLLOWS]
    proved = [row["epsilon"] for row in groups]
    if not groups or None in proved:
        return "Nothing is proved against Charlie with all parties but one."
    return (
        f"Against Charlie with all parties but one, epsilon = {digits(max(proved))} is proved, if these follow the "
        "protocol."
    )


def compared_in(approval: object) -> Compared | None:
    """Return what a recorded approval says of the keys; None where the site did not join by an invitation."""
    try:
        return Compared.model_validate(approval["compared"])  # type: ignore[index]  # the file may hold anything
    except (KeyError, TypeError, ValidationError):
        return None


def roster_report(folder: Path, rows: Sequence[Mapping[str, Any]]) -> tuple[RenderableType, ...]:
    """Return the end of a party's report: whose the keys are; nothing for who did not join by an invitation."""
    try:
        compared = compared_in(json.loads((folder / APPROVAL).read_text(encoding="utf-8")))
    except (OSError, ValueError):  # 'masquerade verify' says what is wrong with the folder
        compared = None
    return () if compared is None else (heading("Whose the keys are"), paragraphs(whose_keys(compared, rows)))
