"""The words of a study's draft: its comments, and what it says about its privacy in the file and on the screen."""

import math
import textwrap
from collections.abc import Mapping

from masquerade_protocols import Protocol

__all__ = [
    "AUXILIARY",
    "CRYPTO",
    "CURATOR",
    "EXAMPLE_NOTES",
    "HEAD",
    "LABEL_WORDS",
    "LEAD",
    "NO_SUM",
    "commented",
    "privacy_words",
    "screen_note",
]


def commented(text: str) -> str:
    """Return a text as the lines of a comment."""
    return "\n".join(f"# {line}" for line in textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False))


def privacy_words(entry: Protocol, parties: int, colluders: int, *, proven: bool) -> Mapping[str, str]:
    """Return the comments on ``calibration`` and ``colluders``, by the names that they have in ``HEAD``."""
    if proven:
        calibration = '"proven": as much noise as a proof needs for the privacy target.'
        if "paper" in entry.calibrations:
            calibration += ' "paper" would be the noise of the protocol\'s paper; it is for reproducing that paper.'
    else:
        other = (
            '"proven" would be as much noise as a proof needs for the target.'
            if "proven" in entry.calibrations
            else "This protocol has no other calibration."
        )
        calibration = (
            '"paper": noise as the protocol\'s paper has it. It is for reproducing that paper, and may not keep the '
            f"privacy target: 'masquerade statement FILE' says what is proved. {other}"
        )
    return {
        "calibration_words": commented(calibration),
        "colluders_words": commented(_about_colluders(entry, parties, colluders, proven=proven)),
    }


def _about_colluders(entry: Protocol, parties: int, colluders: int, *, proven: bool) -> str:
    text = "The number of parties that may side with Charlie, the curator."
    if entry.baseline:
        return f"{text} In a baseline nobody does, since one person holds all records."
    if not proven:
        return f"{text} The statement counts so many; the paper's noise does not depend on them."
    if not entry.noise_in_shares:
        whose = "for its own records, so the target holds no matter which parties collude"
        return f"{text} Each party draws the whole noise {whose}."
    if not colluders:
        return (
            f"{text} With 0, the noise meets the target against Charlie alone, and against all who see the result. A "
            "party knows its own noise and can take it off. With 1, the target also holds against each party."
        )
    text += " The noise meets the target against this number, and against a party that acts alone."
    h = parties - colluders
    if h == 1:
        each = "With two parties, each" if parties == 2 else "Each party"  # noqa: PLR2004
        return f"{text} {each} then bears the whole noise: all together have {_more(parties, colluders)}."
    return f"{text} So the noise of any {h} parties is enough, and all together have {_more(parties, colluders)}."


def _more(parties: int, colluders: int) -> str:
    """Say how much longer the noise of all shares is than that of as many as are enough."""
    honest = max(1, parties - colluders)  # a study without honest parties is not valid, and its check says why
    return f"{math.sqrt(parties / honest):.2f} times the noise that colluders = 0 would need"


def screen_note(entry: Protocol, parties: int, colluders: int, *, proven: bool) -> str:
    """Return what the coordinator has to know of a new study's privacy: a sentence without a full stop, or nothing."""
    if entry.baseline:
        return ""
    if not proven:
        return (
            'calibration = "paper" is for reproducing a paper: its noise may not keep the privacy target, and '
            "'masquerade statement' says what is proved"
        )
    if parties == 1 or not entry.noise_in_shares:
        return ""
    if not colluders:
        return (
            "with colluders = 0 the noise is not sized against the other parties, each of which can take its own off; "
            "--colluders 1 allows for one of them"
        )
    if parties == 2:  # noqa: PLR2004
        return (
            "with two parties, each bears the whole noise, so that the target holds against the other one too: both "
            f"together have {_more(parties, colluders)}"
        )
    return ""


HEAD = """\
# A masquerade study. It holds everything that changes the result or its privacy; all participants agree to it.
# All of them need exactly this file. 'masquerade study show FILE' explains what it means for them.

[study]
name = {name}
protocol = {protocol}
# For people: what the study is for, its legal basis, its number at an ethics committee, and whom to ask. All are public
# and optional. They stand before each approval, and on page one of the report.
# purpose = "which patients come back within a month"
# legal_basis = "consent"
# ethics_number = "2026-123"
# contact = "Dr. A. Coordinator, a.coordinator@example.org"
# The minimum number of parties for a run.
min_parties = {min_parties}
{lead_lines}# The minimum number of records of a party. The number is public. A party with fewer refuses to take part.
min_records = {min_records}
# The maximum number of records of a party; also public. A [[party]] may have its own.
# max_records = 100000
# "clamp": a number outside its bounds counts as the nearer bound, and a cell that is missing or has no public level as
# the column's public 'missing' value; only the party learns how many. "refuse": such a cell makes the party's process
# refuse, and a refusal tells others something about its records.
out_of_bounds = {out_of_bounds}
# "loose": capitals, and blanks around a cell, do not count where they leave one level or label. "exact": they count.
matching = "loose"
# If one person may have several records, say how many: the privacy statement then covers all of them together.
# records_per_person = 1
# The expected number of records of all parties together. It is public, and binds nobody. From it,
# 'masquerade study check FILE' forecasts the quality of the model; without it, from the minimum.
{expected}expected_records = {expected_records}
# A participant that hears nothing for this number of seconds gives up, and that ends the run.
deadline_seconds = {deadline_seconds}
# Random characters that make this run unique. A new study needs a new nonce.
nonce = {nonce}

# The privacy target.
[privacy]
# The odds of any guess about one record change by at most a factor e^epsilon: with 1, a guess of 50 % becomes one of at
# most 73 %. The smaller, the more private the model, and the noisier.
epsilon = {epsilon}
# {delta_words}.
delta = {delta}
{calibration_words}
calibration = {calibration}
{colluders_words}
colluders = {colluders}

[model]
loss = {loss}
# Lambda, the weight of the penalty (Lambda/2) |w|^2 on the model's weights w.
# {regularization_note}.
regularization = {regularization}
intercept = {intercept}

{crypto_lines}[protocol]
{section}
# The column to predict, {label_words}.
{label_note}[label]
name = {label}
{label_key} = {label_value}
{label_rest}
# The other columns. Their bounds and levels are public, so nobody may take them from the parties' records.
{feature_note}"""

EXAMPLE_NOTES = {
    "label": "# THIS LABEL IS AN EXAMPLE, for none was given. Replace it by yours.\n",
    "feature": "# THESE COLUMNS ARE EXAMPLES, for none were given. Replace them by yours.\n",
}

LEAD = """\
# The lead: the party that holds the secret half of the parties' encryption key.
lead = {lead}
"""

CRYPTO = {
    "masks": """\
[crypto]
# The kind of sums over all parties. "masks": each party hides its numbers under random masks that cancel in the sum.
# "paillier": under a key whose secret half one party, the lead, holds.
sum = "masks"

""",
    "paillier": """\
[crypto]
# The kind of sums over all parties: "paillier" encrypts them under a key whose secret half the lead holds.
sum = "paillier"
key_bits = {key_bits}

""",
}
"""The section of each way to make sums."""

NO_SUM = """\
[crypto]
# "paillier": what is compared and selected is encrypted, some under the lead's key and some under Charlie's. No sum is.
sum = "paillier"
key_bits = {key_bits}

"""
"""The section where numbers are encrypted, and none of them is a secure sum."""

LABEL_WORDS = {
    "positive": "and which of its two values counts as +1",
    "classes": "and its values",
    "min": "a number, and its public bounds",
}

AUXILIARY = """
# The auxiliary records: public, with the same columns and no label. Everybody needs this file beside the study.
[protocol.auxiliary]
file = {file}
# The file's hash, from 'sha256sum FILE'. Zeros stand for a file that is still to come.
sha256 = {sha256}
records = {records}
"""

CURATOR = """\
# Where Charlie, the curator, listens; and the public half of his keys, which 'masquerade keys new' prints.
[curator]
address = {address}
key = {curator_key}

# The parties. Compare each key's fingerprint with its owner: by telephone, say, if the key came by mail.
"""
