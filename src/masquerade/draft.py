"""The draft of a study as commented TOML: the file that a coordinator edits, sends around and keeps."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from masquerade.held_back import Proposal, propose
from masquerade_core.data.loading import load_records
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.study import AuxiliaryFile, Feature, Label, Study, check_section
from masquerade_protocols import DEFAULT_PROTOCOL, Protocol, entry_named, entry_of

__all__ = [
    "Draft",
    "auxiliary_file",
    "new_nonce",
    "throwaway_key",
]

PLACEHOLDER = "mq1:PUT-HERE:THE-LINE-THAT-masquerade-keys-new-PRINTS"
"""Stands where a public key belongs; a study with it does not pass the check."""

_BASELINE_SECTION = "# A baseline, for 'masquerade simulate' alone: nothing to choose.\n"

EXAMPLE_FEATURES = (Feature(name="age", min=0.0, max=120.0), Feature(name="sex", levels=("f", "m")))
"""Columns that nobody asked for; a draft in which they stand says that they are an example."""

EXAMPLE_LABEL = Label(name="outcome", positive="yes")
"""The same of the column to predict."""


def new_nonce() -> str:
    """Draw the random characters that make this study's run unlike every other."""
    return secrets.token_urlsafe(18)


def throwaway_key() -> PublicKeys:
    """Return a public key whose secret half nobody has: for simulations, where nobody signs anything."""
    return PublicKeys(secrets.token_bytes(32), secrets.token_bytes(32))


def auxiliary_file(path: Path, features: Sequence[Feature]) -> AuxiliaryFile:
    """Say what ``[protocol.auxiliary]`` has to say of a file with public records.

    Raises
    ------
    BadInput
        The file cannot be read with these features, or has no fitting name.
    """
    records = len(load_records(path, Encoder(tuple(features), intercept=False)))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    named = {"file": path.name, "sha256": digest, "records": records}
    check_section(AuxiliaryFile, named, "protocol.auxiliary")
    return AuxiliaryFile.model_validate(named)


@dataclass(frozen=True)
class Draft:
    """What a new study is made of. Where a key is missing, the file has a placeholder.

    Parameters
    ----------
    parties : sequence of (str, PublicKeys or None)
        Names and keys in roster order.
    rounds : int or None
        How many, for a protocol that has rounds; the protocol's default if None.
    parameters : mapping of str to number
        Further values of the protocol's section, in place of its defaults.
    calibration : str or None
        "paper" or "proven"; the protocol's default if None.
    colluders : int
        Parties that may side with Charlie.
    auxiliary : AuxiliaryFile or None
        The public records that the protocol learns from, where it does; the file has a placeholder if None.
    measured : bool
        Whether the run may measure its model: the file then has ``[evaluation]``, or a comment on why it has none.
    features, label
        Examples, marked as such in the file, if they are not given.
    """

    parties: Sequence[tuple[str, PublicKeys | None]]
    curator_key: PublicKeys | None = None
    name: str = "my-study"
    protocol: str = DEFAULT_PROTOCOL
    rounds: int | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    address: str = "tcp://127.0.0.1:5555"
    features: Sequence[Feature] = EXAMPLE_FEATURES
    label: Label = EXAMPLE_LABEL
    auxiliary: AuxiliaryFile | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    calibration: str | None = None
    colluders: int = 0
    min_records: int = 100
    min_parties: int | None = None
    lead: str | None = None
    deadline_seconds: float = 600.0
    regularization: float = 0.02
    intercept: bool = True
    key_bits: int = 2048
    nonce: str = field(default_factory=new_nonce)
    measured: bool = False

    @property
    def complete(self) -> bool:
        """Whether every key is there."""
        return self.curator_key is not None and all(key is not None for _, key in self.parties)

    @property
    def examples(self) -> tuple[str, ...]:
        """What nobody chose and has to be replaced: some of "feature" and "label"."""
        return ("feature",) * (self.features is EXAMPLE_FEATURES) + ("label",) * (self.label is EXAMPLE_LABEL)

    @property
    def proposal(self) -> Proposal:
        """What the file says about measuring the model."""
        entry = entry_named(self.protocol)
        proven = (self.calibration or entry.calibrations[0]) == "proven"
        if not (self.measured and entry.evaluates and proven and self.label.classes is None):
            return Proposal()
        K = len(self.parties)
        return propose(K * self.min_records, K, self.colluders, self.epsilon, self.delta)

    def to_toml(self) -> str:
        """Return the file's text.

        Raises
        ------
        BadInput
            What was given makes no valid study.
        """
        text = self._text(lambda key: str(key) if key else PLACEHOLDER)
        checked = text if self.complete else self._text(lambda key: str(key or throwaway_key()))
        entry_of(Study.parse(checked, "the new study", in_memory=True))
        return text

    def write(self, path: Path) -> str:
        """Write the file, which must not exist, and return its text.

        Raises
        ------
        BadInput
            What was given makes no valid study, or the file cannot be written.
        """
        text = self.to_toml()
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as error:
            raise BadInput(f"{path} exists already, and a study is never overwritten", "choose another file") from error
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}", "choose another file") from error
        return text

    def _section(self, entry: Protocol) -> str:
        text = entry.section_for(self.calibration) + self._auxiliary_section(entry)
        if entry.baseline:
            text = text or _BASELINE_SECTION
        wanted = dict(self.parameters) if self.rounds is None else {**self.parameters, "rounds": self.rounds}
        for key, value in wanted.items():
            text, count = re.subn(rf"^{key} = .+$", f"{key} = {json.dumps(value)}", text, flags=re.MULTILINE)
            if not count:
                raise BadInput(f"{self.protocol} has no {key} to choose", f"leave {'--' * (key == 'rounds')}{key} out")
        return text

    def _auxiliary_section(self, entry: Protocol) -> str:
        if not entry.auxiliary:
            if self.auxiliary is not None:
                raise BadInput(f"{self.protocol} learns from no auxiliary records", "leave --auxiliary out")
            return ""
        named = self.auxiliary or AuxiliaryFile(file="auxiliary.csv", sha256="0" * 64, records=1000)
        return _AUXILIARY.format_map({key: json.dumps(value) for key, value in named.model_dump().items()})

    def _text(self, shown: Callable[[PublicKeys | None], str]) -> str:
        entry = entry_named(self.protocol)
        names = [name for name, _ in self.parties]
        values = {
            "name": self.name,
            "protocol": self.protocol,
            "min_parties": self.min_parties if self.min_parties is not None else len(names),
            "lead": self.lead if self.lead is not None else names[0],
            "min_records": self.min_records,
            "deadline_seconds": float(self.deadline_seconds),
            "nonce": self.nonce,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "calibration": self.calibration or entry.calibrations[0],
            "colluders": self.colluders,
            "regularization": float(self.regularization),
            "intercept": self.intercept,
            "key_bits": self.key_bits,
            "label": self.label.name,
            "label_value": self.label.positive or list(self.label.classes or ()),
            "address": self.address,
            "curator_key": shown(self.curator_key),
        }
        words = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
        key = "positive" if self.label.classes is None else "classes"
        words |= {"label_key": key, "label_words": _LABEL_WORDS[key]}
        words |= {f"{what}_note": _EXAMPLE_NOTES[what] if what in self.examples else "" for what in _EXAMPLE_NOTES}
        note = entry.regularization_note
        words["regularization_note"] = note[:1].upper() + note[1:]
        blocks = [_HEAD.format_map({**words, "section": self._section(entry) + self.proposal.section})]
        blocks += [_feature(feature) for feature in self.features]
        blocks.append(_CURATOR.format_map({key: json.dumps(value) for key, value in values.items()}))
        blocks += [
            f"[[party]]\nname = {json.dumps(name)}\nkey = {json.dumps(shown(key))}\n" for name, key in self.parties
        ]
        return "\n".join(blocks)


def _feature(feature: Feature) -> str:
    head = f"[[feature]]\nname = {json.dumps(feature.name, ensure_ascii=False)}\n"
    values = feature.model_dump(mode="json", exclude_none=True, exclude={"name"})
    return head + "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())


_HEAD = """\
# A masquerade study. It holds everything that changes the result or its privacy; all participants agree to it.
# All of them need exactly this file. 'masquerade study show FILE' explains what it means for them.

[study]
name = {name}
protocol = {protocol}
# The fewest parties with which a run may start.
min_parties = {min_parties}
# The lead: the party that holds the secret half of the key under which all parties encrypt.
lead = {lead}
# The fewest records that a party may have. The number is public. A party with fewer refuses to take part.
min_records = {min_records}
# Whoever hears nothing for so many seconds gives up, and that ends the run.
deadline_seconds = {deadline_seconds}
# Random characters that make this run unlike every other. A new study needs a new nonce.
nonce = {nonce}

# The privacy target.
[privacy]
# The privacy that a record may lose. The smaller, the more private the model, and the noisier.
epsilon = {epsilon}
# The probability that epsilon does not hold.
delta = {delta}
# "paper": noise as the protocol's paper has it. "proven": as much noise as a proof needs for the privacy target.
calibration = {calibration}
# How many parties may side with Charlie, the curator. "proven" noise meets the target against so many.
colluders = {colluders}

[model]
loss = "logistic"
# Lambda, the weight of the penalty (Lambda/2) |w|^2 on the model's weights w.
# {regularization_note}.
regularization = {regularization}
intercept = {intercept}

[crypto]
key_bits = {key_bits}

[protocol]
{section}
# The column to predict, {label_words}.
{label_note}[label]
name = {label}
{label_key} = {label_value}

# The other columns. Their bounds and levels are public, so nobody may take them from the parties' records.
{feature_note}"""

_EXAMPLE_NOTES = {
    "label": "# THIS LABEL IS AN EXAMPLE, for none was given. Replace it by yours.\n",
    "feature": "# THESE COLUMNS ARE EXAMPLES, for none were given. Replace them by yours.\n",
}

_LABEL_WORDS = {"positive": "and which of its two values counts as +1", "classes": "and its values"}

_AUXILIARY = """
# The auxiliary records: public, with the same columns and no label. Everybody needs this file beside the study.
[protocol.auxiliary]
file = {file}
# The file's hash, from 'sha256sum FILE'. Zeros stand for a file that is still to come.
sha256 = {sha256}
records = {records}
"""

_CURATOR = """\
# Where Charlie, the curator, listens; and the public half of his keys, which 'masquerade keys new' prints.
[curator]
address = {address}
key = {curator_key}

# The parties. Compare each key's fingerprint with its owner: by telephone, say, if the key came by mail.
"""
