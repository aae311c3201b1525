"""A new study as commented TOML: the file that a coordinator edits, sends around and keeps."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from masquerade_core.data.loading import load_records
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.study import AuxiliaryFile, Feature, Label, Study, check_section
from masquerade_protocols import BASELINES, PROTOCOLS, entry_named, entry_of, protocol_of

__all__ = [
    "DEFAULT_PROTOCOL",
    "Draft",
    "auxiliary_file",
    "needs_auxiliary",
    "new_nonce",
    "parse_feature",
    "parse_label",
    "throwaway_key",
]

DEFAULT_PROTOCOL = "dp-gd"
"""Of a new study and of a demonstration: what is wished is what is proved."""

PLACEHOLDER = "mq1:PUT-HERE:THE-LINE-THAT-masquerade-keys-new-PRINTS"
"""Stands where a public key belongs; a study with it does not pass the check."""

_THREE = 3
_BASELINE_SECTION = "# A baseline, for 'masquerade simulate' alone: nothing to choose.\n"

_EXAMPLE_FEATURES = (Feature(name="age", min=0.0, max=120.0), Feature(name="sex", levels=("f", "m")))
_EXAMPLE_LABEL = Label(name="outcome", positive="yes")


def new_nonce() -> str:
    """Draw what makes this study's run unlike every other."""
    return secrets.token_urlsafe(18)


def throwaway_key() -> PublicKeys:
    """Return a public key whose secret half nobody has: for simulations, where nobody signs anything."""
    return PublicKeys(secrets.token_bytes(32), secrets.token_bytes(32))


def parse_feature(text: str) -> Feature:
    """Read ``name:min:max``, ``name:level,level,...`` or ``name:edges:edge,edge,...``.

    Raises
    ------
    BadInput
        It is none of them.
    """
    parts = text.rsplit(":", 2)
    if len(parts) == _THREE and parts[1] == "edges":
        try:
            return Feature(name=parts[0], edges=tuple(float(edge) for edge in parts[2].split(",")))
        except ValueError as error:
            raise BadInput(f"--feature {text!r}: edges must be numbers that grow", _FEATURE_HINT) from error
    try:
        if len(parts) == _THREE:
            low, high = float(parts[1]), float(parts[2])
            return Feature(name=parts[0], min=low, max=high)
    except ValueError as error:
        if "could not convert" not in str(error):
            raise BadInput(f"--feature {text!r}: min must be a number smaller than max", _FEATURE_HINT) from error
    name, _, levels = text.rpartition(":")
    try:
        return Feature(name=name, levels=tuple(level.strip() for level in levels.split(",")))
    except ValueError as error:
        raise BadInput(
            f"--feature {text!r} is neither NAME:MIN:MAX nor NAME:LEVEL,LEVEL,... nor NAME:edges:EDGE,EDGE,...",
            _FEATURE_HINT,
        ) from error


_FEATURE_HINT = (
    "write for example --feature age:0:120 or --feature sex:f,m or --feature age:edges:25,35,50; bounds, levels and "
    "edges are public"
)


def parse_label(text: str) -> Label:
    """Read ``name:positive``, or ``name:class,class,...``.

    Raises
    ------
    BadInput
        It is not of that form.
    """
    name, _, values = text.rpartition(":")
    try:
        if "," in values:
            return Label(name=name, classes=tuple(value.strip() for value in values.split(",")))
        return Label(name=name, positive=values)
    except ValueError as error:
        raise BadInput(
            f"--label {text!r} is neither NAME:POSITIVE nor NAME:CLASS,CLASS,...",
            "write for example --label outcome:yes, or --label stage:i,ii,iii",
        ) from error


def needs_auxiliary(protocol: str) -> bool:
    """Whether a protocol of this name learns from auxiliary records."""
    return protocol in PROTOCOLS and "auxiliary" in PROTOCOLS[protocol].parameters.model_fields


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
    """What a new study is made of; where a key is missing, a placeholder stands.

    Parameters
    ----------
    parties : sequence of (str, PublicKeys or None)
        Names and keys in roster order.
    rounds : int or None
        Of a protocol that has any; its own default where None.
    parameters : mapping of str to number
        What else is to stand in the protocol's section, in place of its own defaults.
    calibration : str or None
        "paper" or "proven"; the protocol's own choice where None.
    colluders : int
        Parties that may side with Charlie.
    auxiliary : AuxiliaryFile or None
        Of a protocol that learns from public records; a placeholder where None.
    """

    parties: Sequence[tuple[str, PublicKeys | None]]
    curator_key: PublicKeys | None = None
    name: str = "my-study"
    protocol: str = DEFAULT_PROTOCOL
    rounds: int | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    address: str = "tcp://127.0.0.1:5555"
    features: Sequence[Feature] = _EXAMPLE_FEATURES
    label: Label = _EXAMPLE_LABEL
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

    @property
    def complete(self) -> bool:
        """Whether every key is there."""
        return self.curator_key is not None and all(key is not None for _, key in self.parties)

    def to_toml(self) -> str:
        """Return the file's text.

        Raises
        ------
        BadInput
            What was given makes no valid study.
        """
        text = self._text(lambda key: str(key) if key else PLACEHOLDER)
        checked = text if self.complete else self._text(lambda key: str(key or throwaway_key()))
        study = Study.parse(checked, "the new study", in_memory=True)
        if self.protocol in BASELINES:
            entry_of(study)
        else:
            protocol_of(study)
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

    def _section(self) -> str:
        if self.protocol in BASELINES:
            baseline = BASELINES[self.protocol]
            proven = self.calibration == "proven" and baseline.proven_section
            text = proven or baseline.section or _BASELINE_SECTION
        else:
            text = entry_named(self.protocol).section_for(self.calibration) + self._auxiliary_section()
        wanted = dict(self.parameters) if self.rounds is None else {**self.parameters, "rounds": self.rounds}
        for key, value in wanted.items():
            text, count = re.subn(rf"^{key} = .+$", f"{key} = {json.dumps(value)}", text, flags=re.MULTILINE)
            if not count:
                raise BadInput(f"{self.protocol} has no {key} to choose", f"leave {'--' * (key == 'rounds')}{key} out")
        return text

    def _calibration(self) -> str:
        return PROTOCOLS[self.protocol].calibrations[0] if self.protocol in PROTOCOLS else "paper"

    def _auxiliary_section(self) -> str:
        if not needs_auxiliary(self.protocol):
            if self.auxiliary is not None:
                raise BadInput(f"{self.protocol} learns from no auxiliary records", "leave --auxiliary out")
            return ""
        named = self.auxiliary or AuxiliaryFile(file="auxiliary.csv", sha256="0" * 64, records=1000)
        return _AUXILIARY.format_map({key: json.dumps(value) for key, value in named.model_dump().items()})

    def _text(self, shown: Callable[[PublicKeys | None], str]) -> str:
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
            "calibration": self.calibration or self._calibration(),
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
        blocks = [_HEAD.format_map({**words, "section": self._section()})]
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
# A masquerade study: everything that changes the result or its privacy, for everybody to read and to agree on.
# All participants need exactly this file. 'masquerade study show FILE' says what it means for them.

[study]
name = {name}
protocol = {protocol}
min_parties = {min_parties}
# One of the parties: it holds the key that the parties share.
lead = {lead}
# Of each party, and public: with fewer records, a party refuses to take part.
min_records = {min_records}
# Of silence, before everybody gives up.
deadline_seconds = {deadline_seconds}
# Makes this run unlike every other: a new study, a new nonce.
nonce = {nonce}

[privacy]
# The smaller, the more private, and the noisier.
epsilon = {epsilon}
# The probability that epsilon does not hold.
delta = {delta}
# "paper": noise as the paper has it. "proven": as much as a proof needs for the wish, where the protocol can.
calibration = {calibration}
# Parties that may side with Charlie: "proven" noise holds against so many.
colluders = {colluders}

[model]
loss = "logistic"
# Lambda of (Lambda/2) |w|^2: the larger, the less noise, and the simpler the model.
regularization = {regularization}
intercept = {intercept}

[crypto]
key_bits = {key_bits}

[protocol]
{section}
# The column to predict, {label_words}.
[label]
name = {label}
{label_key} = {label_value}

# The other columns. Bounds and levels are public: they must not be read off anybody's records.
"""

_LABEL_WORDS = {"positive": "and which of its two values counts as +1", "classes": "and its values"}

_AUXILIARY = """
# Public records of the same columns, without a label; everybody needs this file beside the study.
[protocol.auxiliary]
file = {file}
# Of the file: 'sha256sum FILE'; zeros stand for a file that is still to come.
sha256 = {sha256}
records = {records}
"""

_CURATOR = """\
# Where Charlie, the curator, listens, and the public half of his keys ('masquerade keys new').
[curator]
address = {address}
key = {curator_key}

# The parties. Compare each key's fingerprint with its owner, by another way than the one it came by.
"""
