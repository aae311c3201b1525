"""``masquerade bounds``: a paper's theorems on how good the model is, with the numbers of one study."""

from typing import TYPE_CHECKING

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade.cli.study import parsed
from masquerade_host.process.options import StudyArgument

if TYPE_CHECKING:
    from masquerade_core.study import Study

__all__ = ["bounds"]


def bounds(study: StudyArgument, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Print a paper's theorems on the quality of a study's model, and the proved bounds. Nothing is run."""
    from masquerade.theorem_view import shown
    from masquerade_core.learning.theorems import FAILURE
    from masquerade_protocols import entry_of, theorems_of

    del output_format
    loaded = parsed(study)
    found = theorems_of(loaded)
    protocol, paper = loaded.study.protocol, entry_of(loaded).paper
    return Outcome(
        f"{paper}: the theorems on how good the model is, with the numbers of study {loaded.study.name!r}"
        if found
        else f"for {protocol} no theorem here bounds how good the model is",
        {
            "name": loaded.study.name,
            "protocol": protocol,
            "paper": paper,
            "failure": FAILURE,
            "records": _records(loaded),
            "theorems": [one.to_json() for one in found],
        },
        hint="" if found else f"see what can be expected of the model: masquerade study check {study}",
        shown=shown(found, paper, loaded) if found else (),
    )


def _records(study: "Study") -> dict[str, int]:
    return {"parties": study.K, "each": study.study.min_records}
