"""``masquerade curator`` and ``masquerade party``: the two processes."""

import json
from pathlib import Path

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_curator.options import CuratorOptions
from masquerade_host.process.options import asking
from masquerade_party.options import PartyOptions

__all__ = ["curator", "party"]


def _curator(options: CuratorOptions, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Run Charlie, the curator: listen, wait for the parties, serve the run, publish the model."""
    from masquerade_curator import run_with
    from masquerade_host.process.process import harden, stoppable

    harden()
    with stoppable():
        return _done(run_with(options), output_format)


def _party(options: PartyOptions, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Take part in a study as one of its parties: read it, agree to it, and stay until the model is there."""
    from masquerade_host.process.process import harden, stoppable
    from masquerade_party import run_with

    harden()
    with stoppable():
        return _done(run_with(options), output_format)


curator, party = asking(CuratorOptions, _curator), asking(PartyOptions, _party)


def _done(path: Path, output_format: Format) -> Outcome:
    from masquerade.coefficients_view import coefficients_report, read_coefficients
    from masquerade.report import result_report
    from masquerade.roster_view import roster_report
    from masquerade.statistics import read_statistics, statistics_report

    result = json.loads(path.read_text(encoding="utf-8"))
    statistics = read_statistics(path.parent)
    data, shown, stdout = {**result, "directory": str(path.parent)}, result_report(result), ""
    shown = (*shown, *roster_report(path.parent, result["statement"]))
    if (coefficients := read_coefficients(path.parent)) is not None:
        data["coefficients"] = coefficients.to_json()
        shown = (*shown, *coefficients_report(coefficients))
    if statistics is not None:
        data["statistics"], stdout = statistics, statistics["features"]
        shown = (*shown, *statistics_report(statistics))
    return Outcome(
        f"the results are in {path.parent}",
        data,
        shown=shown if output_format is Format.TEXT else (),
        stdout=stdout,
    )
