"""The draft of a study as commented TOML: the file that a coordinator edits, sends around and keeps."""

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from masquerade.burden import burden_of
from masquerade.codebook import Unranged
from masquerade.draft_lines import stand_in, unranged_block, with_more, with_settings
from masquerade.draft_text import (
    AUXILIARY,
    CRYPTO,
    CURATOR,
    EXAMPLE_NOTES,
    HEAD,
    LABEL_WORDS,
    LEAD,
    NO_SUM,
    privacy_words,
    screen_note,
)
from masquerade.held_back import SHARE, Proposal, propose
from masquerade.losing import PRICE, dropout_section, price_of
from masquerade_core.data.loading import load_records
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.privacy.expectation import Expectation
from masquerade_core.study import AuxiliaryFile, EvaluationSection, Feature, Label, Study, check_section
from masquerade_core.words import DELTA
from masquerade_protocols import DEFAULT_PROTOCOL, Cost, Protocol, entry_named, entry_of

__all__ = [
    "Draft",
    "auxiliary_file",
    "new_nonce",
    "throwaway_key",
    "with_some_keys",
]

PLACEHOLDER = "mq1:PUT-HERE:THE-LINE-THAT-masquerade-keys-new-PRINTS"
"""Stands where a public key belongs; a study with it does not pass the check."""

_PAPERS_REGULARIZATION = 0.02
_COUNTED_ON = 20_000  # an example, commented out where nobody said how many records are expected
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


def with_some_keys(text: str) -> str:
    """Return a draft's text with throwaway keys in the places of those that nobody has filled in yet."""
    head, *rest = text.split(PLACEHOLDER)
    return head + "".join(f"{throwaway_key()}{part}" for part in rest)


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
    """The content of a new study. Where a key is missing, the file has a placeholder.

    Parameters
    ----------
    parties : sequence of (str, PublicKeys or None)
        Names and keys in roster order.
    rounds : int or None
        How many, for a protocol that has rounds; the protocol's default if None.
    parameters : mapping of str to value
        Further values of the protocol's section, in place of its defaults.
    calibration : str or None
        "paper" or "proven". If None, "proven" wherever the protocol has it.
    colluders : int or None
        Parties that may side with Charlie. If None, 1 where the noise is proven and there are two parties or more.
    expected_records : int or None
        How many records all parties together are expected to have.
    lead : str or None
        The party that holds the encryption key, where there is one; the first if None.
    regularization : float or None
        Lambda; the protocol's own if None.
    sum : str or None
        "masks" or "paillier". If None, "paillier" where a lead or a key's length is given, else the protocol's own.
    key_bits : int or None
        The length of the encryption key, where there is one; 2048 if None.
    out_of_bounds : str
        "clamp" or "refuse".
    auxiliary : AuxiliaryFile or None
        The public records that the protocol learns from, where it does; the file has a placeholder if None.
    measured : bool
        Whether the run may measure its model: the file then has ``[evaluation]``, or a comment on why it has none.
    features, label
        Examples, marked as such in the file, if they are not given. A feature without a range gets a placeholder.
    dropouts : mapping of str to value
        The keys and values of ``[dropouts]``; none where the run needs every party to the end.
    more : mapping of str to mapping
        Further keys and values, or other values, by the names of sections; another study may have them.
    """

    parties: Sequence[tuple[str, PublicKeys | None]]
    curator_key: PublicKeys | None = None
    name: str = "my-study"
    protocol: str = DEFAULT_PROTOCOL
    rounds: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    address: str = "tcp://127.0.0.1:5555"
    features: Sequence[Feature | Unranged] = EXAMPLE_FEATURES
    label: Label = EXAMPLE_LABEL
    auxiliary: AuxiliaryFile | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    calibration: str | None = None
    colluders: int | None = None
    min_records: int = 100
    expected_records: int | None = None
    min_parties: int | None = None
    lead: str | None = None
    deadline_seconds: float = 600.0
    regularization: float | None = None
    intercept: bool = True
    sum: str | None = None
    key_bits: int | None = None
    out_of_bounds: str = "clamp"
    loss: str = "logistic"
    nonce: str = field(default_factory=new_nonce)
    more: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measured: bool = False
    dropouts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every key and every range is there."""
        return self.has_keys and not self.unranged

    @property
    def has_keys(self) -> bool:
        """Whether every key is there."""
        return self.curator_key is not None and all(key is not None for _, key in self.parties)

    @property
    def unranged(self) -> tuple[str, ...]:
        """The features whose public range has still to be filled in."""
        return tuple(feature.name for feature in self.features if isinstance(feature, Unranged))

    @property
    def examples(self) -> tuple[str, ...]:
        """The placeholders that must be replaced: some of "feature" and "label"."""
        return ("feature",) * (self.features is EXAMPLE_FEATURES) + ("label",) * (self.label is EXAMPLE_LABEL)

    @property
    def proven(self) -> bool:
        """Whether the study's noise is as much as a proof needs for the privacy target."""
        return (self.calibration or entry_named(self.protocol).default_calibration) == "proven"

    @property
    def counted_colluders(self) -> int:
        """How many parties may side with Charlie, as the file says it."""
        if self.colluders is not None:
            return self.colluders
        return int(self.proven and len(self.parties) > 1 and not entry_named(self.protocol).baseline)

    @property
    def counted_sum(self) -> str:
        """How sums are made, as the file says it."""
        if self.sum is not None:
            return self.sum
        return "paillier" if self.lead is not None or self.key_bits is not None else entry_named(self.protocol).sum

    @property
    def note(self) -> str:
        """A note for the coordinator about the study's privacy: a sentence without a full stop, or nothing."""
        return screen_note(entry_named(self.protocol), len(self.parties), self.counted_colluders, proven=self.proven)

    @cached_property
    def proposal(self) -> Proposal:
        """The file's section on measuring the model."""
        entry = entry_named(self.protocol)
        # Coefficients have intervals of their own, and records that are held back would only make them wider.
        wanted = self.measured and "evaluation" not in self.more and not entry.coefficients
        if not (wanted and entry.evaluates and self.proven and self.label.positive is not None):
            return Proposal()
        K = len(self.parties)
        records = K * self.min_records if self.expected_records is None else self.expected_records
        without: Expectation | None = None
        with_it: Expectation | None = None
        if entry.expectation is not None:
            study = self._checked(proposal=Proposal())
            without = entry.expectation(study)
            with_it = entry.expectation(study.model_copy(update={"evaluation": EvaluationSection(share=SHARE)}))
        return propose(
            records,
            K,
            self.counted_colluders,
            self.epsilon,
            self.delta,
            survivors=self.dropouts.get("min_survivors"),
            retries=self.dropouts.get("retries", 0),
            without=without,
            with_it=with_it,
        )

    def to_toml(self) -> str:
        """Return the file's text.

        Raises
        ------
        BadInput
            What was given makes no valid study.
        """
        study = self._checked()
        price = price_of(study) if self.dropouts else ""
        text = self._text(lambda key: str(key) if key else PLACEHOLDER, self.features, _cost_of(study))
        return text.replace(PRICE, price)

    def _checked(self, proposal: Proposal | None = None) -> Study:
        """Return the study, with something in every place that is to be filled in; BadInput where it is not valid."""
        whole = [stand_in(feature) for feature in self.features]
        text = self._text(lambda key: str(key or throwaway_key()), whole, proposal=proposal)
        study = Study.parse(text, "the new study", in_memory=True)
        entry_of(study)
        return study

    @property
    def price(self) -> str:
        """The price of a run that may lose parties: a sentence without a full stop, or nothing."""
        if not self.dropouts:
            return ""
        return (
            f"the run goes on with {self.dropouts['min_survivors']} of {len(self.parties)} parties, which costs "
            f"{price_of(self._checked())} more noise than a run that needs all of them"
        )

    @property
    def foreseen(self) -> str:
        """A warning if little can be expected of the release and that follows from the options; else nothing."""
        tell = entry_named(self.protocol).expectation
        if tell is None or self.examples or self.unranged:
            return ""
        expected = tell(self._checked())
        return expected.text.removesuffix(".") if expected.poor else ""

    @property
    def burden(self) -> str:
        """The cost of a large run to lines and machines: sentences without the last full stop, or nothing."""
        study = self._checked()
        return burden_of(_cost_of(study), study.K).removesuffix(".")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the person who drafts the study: sentences without a full stop."""
        return tuple(filter(None, (self.note, self.proposal.note, self.price, self.foreseen, self.burden)))

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
        text = entry.section_for(self.calibration)
        if entry.baseline:
            text = text or _BASELINE_SECTION
        wanted = dict(self.parameters) if self.rounds is None else {**self.parameters, "rounds": self.rounds}
        return with_settings(text, entry, wanted) + self._auxiliary_section(entry)

    def _regularization(self, entry: Protocol) -> float:
        own = _PAPERS_REGULARIZATION if entry.regularization is None else entry.regularization
        return float(own if self.regularization is None else self.regularization)

    def _sum_lines(self, first: str, cost: Cost | None) -> dict[str, str]:
        """Return the lines on the lead and ``[crypto]``; what does not fit stands there too, for the check to name.

        Where nothing is encrypted, and nobody asked for a key or a way to make sums, there are none. A cost of None is
        one that is not known yet.
        """
        how = self.counted_sum
        asked = self.sum is not None or self.lead is not None or self.key_bits is not None
        if how == "paillier" and cost is not None and not cost.ciphertexts and not asked:
            return {"lead_lines": "", "crypto_lines": ""}
        lead = self.lead if self.lead is not None else first if how == "paillier" else None
        lines = CRYPTO.get(how, f"[crypto]\nsum = {json.dumps(how)}\n\n")
        if how == "paillier" and cost is not None and cost.ciphertexts and not cost.sums:
            lines = NO_SUM
        if how != "paillier" and self.key_bits is not None:
            lines = lines.removesuffix("\n") + "key_bits = {key_bits}\n\n"
        return {
            "lead_lines": "" if lead is None else LEAD.format(lead=json.dumps(lead)),
            "crypto_lines": lines.format(key_bits=2048 if self.key_bits is None else self.key_bits),
        }

    def _auxiliary_section(self, entry: Protocol) -> str:
        if not entry.auxiliary:
            if self.auxiliary is not None:
                raise BadInput(f"{self.protocol} learns from no auxiliary records", "leave --auxiliary out")
            return ""
        named = self.auxiliary or AuxiliaryFile(file="auxiliary.csv", sha256="0" * 64, records=1000)
        return AUXILIARY.format_map({key: json.dumps(value) for key, value in named.model_dump().items()})

    def _text(
        self,
        shown: Callable[[PublicKeys | None], str],
        features: Sequence[Feature | Unranged],
        cost: Cost | None = None,
        proposal: Proposal | None = None,
    ) -> str:
        entry = entry_named(self.protocol)
        names = [name for name, _ in self.parties]
        values = {
            "name": self.name,
            "protocol": self.protocol,
            "min_parties": self.min_parties if self.min_parties is not None else len(names),
            "min_records": self.min_records,
            "expected_records": self.expected_records if self.expected_records is not None else _COUNTED_ON,
            "out_of_bounds": self.out_of_bounds,
            "deadline_seconds": float(self.deadline_seconds),
            "nonce": self.nonce,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "calibration": self.calibration or entry.default_calibration,
            "colluders": self.counted_colluders,
            "regularization": self._regularization(entry),
            "intercept": self.intercept,
            "loss": self.loss,
            "label": self.label.name,
            "label_value": self.label.positive or self.label.classes or self.label.min,
            "address": self.address,
            "curator_key": shown(self.curator_key),
        }
        words = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
        key = next(key for key in LABEL_WORDS if getattr(self.label, key) is not None)
        rest = "" if self.label.max is None else f"max = {self.label.max}\n"
        words |= {"label_key": key, "label_words": LABEL_WORDS[key], "label_rest": rest}
        words["delta_words"] = DELTA.capitalize()
        words["expected"] = "" if self.expected_records is not None else "# "
        words |= {f"{what}_note": EXAMPLE_NOTES[what] if what in self.examples else "" for what in EXAMPLE_NOTES}
        words |= privacy_words(entry, len(names), self.counted_colluders, proven=self.proven)
        words |= self._sum_lines(names[0], cost)
        note = entry.regularization_note
        words["regularization_note"] = note[:1].upper() + note[1:]
        section = self._section(entry) + (proposal or self.proposal).section + dropout_section(self.dropouts)
        blocks = [HEAD.format_map({**words, "section": section})]
        blocks += [_feature(feature) for feature in features]
        blocks.append(CURATOR.format_map({key: json.dumps(value) for key, value in values.items()}))
        blocks += [
            f"[[party]]\nname = {json.dumps(name)}\nkey = {json.dumps(shown(key))}\n" for name, key in self.parties
        ]
        own = {"dropouts"} if self.dropouts else set()
        return with_more("\n".join(blocks), {key: self.more[key] for key in self.more if key not in own})


def _cost_of(study: Study) -> Cost:
    """Return the cost of a run; that of a baseline is nothing, since nobody sends anything."""
    entry = entry_of(study)
    nothing = Cost(sums=0, plaintexts=0, ciphertexts=0, round_trips=0, exponentiations=0.0)
    return nothing if entry.baseline else entry.cost(study)


def _feature(feature: Feature | Unranged) -> str:
    if isinstance(feature, Unranged):
        return unranged_block(feature)
    head = f"[[feature]]\nname = {json.dumps(feature.name, ensure_ascii=False)}\n"
    values = feature.model_dump(mode="json", exclude_none=True, exclude={"name"})
    return head + "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
