"""The study: one file with everything that changes the result or its privacy, to which all participants agree.

The file is TOML; a :class:`Study` holds its checked, frozen values. None of them may come from private data: bounds,
levels and the smallest number of records are public. So an error may show them. Every problem is a
:class:`~masquerade_core.errors.BadInput` whose sentence names the section and the key.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from masquerade_core.bounded import toml_of
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.study.sections import (
    CHARLIE,
    MOST_PARTIES,
    Crypto,
    Curator,
    Dropouts,
    EvaluationSection,
    Feature,
    Label,
    Model,
    Party,
    Privacy,
    Section,
    StudySection,
    check_network,
    crowd_problems,
    dropout_problems,
    evaluation_problems,
    lead_problems,
    size_problems,
)
from masquerade_core.study.text import first_repeated, flat, json_text, to_toml
from masquerade_core.words import counted

__all__ = ["INTERCEPT", "Study"]

INTERCEPT = "(intercept)"
"""The name of the constant coordinate."""


class Study(Section):
    """One study, whole and checked.

    Features and parties keep the order of the file. It gives the order of a record's coordinates and of the parties.
    """

    study: StudySection
    privacy: Privacy
    model: Model
    crypto: Crypto = Crypto()
    protocol: dict[str, Any] = Field(default_factory=dict)
    evaluation: EvaluationSection | None = None
    dropouts: Dropouts | None = None
    label: Label
    features: Annotated[tuple[Feature, ...], Field(alias="feature", strict=False, min_length=1)]
    curator: Curator
    parties: Annotated[tuple[Party, ...], Field(alias="party", strict=False, min_length=1, max_length=MOST_PARTIES)]

    @field_validator("protocol")
    @classmethod
    def _json_values(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError("may hold only text, finite numbers, true, false, and lists or tables of these") from error
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        yield from self._roster_problems()
        yield from self._key_problems()
        yield from self._column_problems()
        if self.evaluation is not None:
            yield from evaluation_problems(self.evaluation, self.study.min_records, self.label)
        if self.dropouts is not None:
            yield from dropout_problems(self.dropouts, self.study, self.privacy, self.crypto, self.K)

    def _roster_problems(self) -> Iterator[str]:
        rules, K = self.study, self.K
        if (name := first_repeated(self.names)) is not None:
            yield f"party {name!r} appears in the roster twice; give each party a name of its own"
        if rules.min_parties > K:
            yield (
                f"the roster has {counted(K, 'party', 'parties')}, but min_parties is {rules.min_parties}; "
                "lower min_parties, or add parties"
            )
        yield from crowd_problems(self.crypto, K)
        yield from lead_problems(rules.lead, self.crypto, self.names)
        if rules.slot_seconds is not None and rules.slot_seconds >= rules.deadline_seconds:
            yield (
                f"[study] slot_seconds is {rules.slot_seconds:g}, but must be less than deadline_seconds = "
                f"{rules.deadline_seconds:g}: a party that waits for its slot must not count as silent"
            )
        if (t := self.privacy.colluders) >= K:
            yield f"[privacy] colluders is {t}, but must be at most {K - 1}: at least one party must be honest"
        yield from size_problems(rules, self.parties, self.countable)

    def _key_problems(self) -> Iterator[str]:
        keys = [("the curator", self.curator.key), *((f"party {p.name!r}", p.key) for p in self.parties)]
        for half in ("curve", "sign"):
            owners: dict[bytes, str] = {}
            for owner, key in keys:
                other = owners.setdefault(getattr(key, half), owner)
                if other != owner:
                    yield f"{other} and {owner} have the same key; each participant needs keys of its own"

    def _column_problems(self) -> Iterator[str]:
        columns = [f.name for f in self.features]
        if (name := first_repeated(columns)) is not None:
            yield f"feature {name!r} appears in the study twice; remove or rename one"
        if self.label.name in columns:
            yield f"the label {self.label.name!r} is a feature as well; remove that feature, or name another label"
        if (name := first_repeated(self.coordinates)) is not None:
            yield f"two features would both become the coordinate {name!r}; rename one"

    @classmethod
    def parse(cls, text: str, source: str = "study", *, in_memory: bool = False) -> Self:
        """Read a study from TOML text; ``source`` names it in errors.

        Raises
        ------
        BadInput
            The text is no valid study. The sentence says what was seen and what is allowed.
        """
        data = toml_of(text, source)
        try:
            study = cls.model_validate(data)
        except ValidationError as error:
            from masquerade_core.study.mistakes import explain

            raise BadInput(f"{source}: {explain(error, cls)}") from error
        return study if in_memory else study.for_network()

    def for_network(self) -> Self:
        """Return this study if it may run between processes.

        Raises
        ------
        BadInput
            Its key has a length that only the in-memory table may use, or it has one party only.
        """
        check_network(self.crypto, self.K, self.study.min_parties)
        return self

    def to_toml(self) -> str:
        """Return the study as TOML; :meth:`parse` reads it back to an equal study."""
        return to_toml(self.model_dump(mode="json", by_alias=True, exclude_none=True))

    def canonical(self) -> dict[str, str]:
        """Return all fields in a fixed order, defaults included: the dotted name and the value as canonical JSON."""
        dump = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {name: json_text(value) for name, value in flat(dump)}

    def field_hashes(self) -> dict[str, bytes]:
        """Return a hash of 16 bytes for each field of :meth:`canonical`. They show where two studies differ."""
        return {k: hashlib.blake2b(v.encode(), digest_size=16).digest() for k, v in self.canonical().items()}

    def digest(self) -> bytes:
        """Return the 32-byte hash of this study."""
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.blake2b(json_text(self.canonical()).encode(), digest_size=32, person=b"masq study").digest()

    def fingerprint(self) -> str:
        """Return the start of the digest as eight groups of four hexadecimal digits, for people to compare."""
        digits = self.digest().hex()[:32]
        return " ".join(digits[i : i + 4] for i in range(0, 32, 4))

    def study_id(self, version: str) -> bytes:
        """Return the 16 bytes that identify this study until the roster is known.

        ``version`` has the numbers of the wire and of the protocol's meaning, as the protocol's entry returns them.

        A run has an id of its own, which depends on everybody's nonce as well:
        :func:`~masquerade_core.wire.frames.run_id`.
        """
        seed = b"masquerade run" + self.digest() + version.encode()
        return hashlib.blake2b(seed, digest_size=16).digest()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as every model of pydantic does; what follows from its fields is worked out anew."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in ("_digest", "names", "place_of", "coordinates", "covariates", "record_limits"):
            copied.__dict__.pop(derived, None)
        return copied

    def one_attempt(self) -> Self:
        """Return the study of each attempt: of 1 + ``charged_attempts``, each gets the same share of the target."""
        n = 1 + self.study.charged_attempts
        if n == 1:
            return self
        privacy = self.privacy.model_copy(update={"epsilon": self.privacy.epsilon / n, "delta": self.privacy.delta / n})
        return self.model_copy(
            update={"privacy": privacy, "study": self.study.model_copy(update={"charged_attempts": 0})}
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parties in roster order."""
        return tuple(p.name for p in self.parties)

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Each party's place in the roster, by name."""
        return {name: place for place, name in reversed(tuple(enumerate(self.names)))}

    @property
    def K(self) -> int:  # noqa: N802
        """The number of parties."""
        return len(self.parties)

    @property
    def proven(self) -> bool:
        """Whether the noise is as much as a proof needs for the privacy target; else it is the paper's."""
        return self.privacy.calibration == "proven"

    @property
    def honest(self) -> int:
        """h, the fewest parties in a sum that do not side with Charlie. Their noise alone counts in a proof."""
        return self.survivors - self.privacy.colluders

    @property
    def survivors(self) -> int:
        """s, the fewest parties that a sum may have: K, unless the run may lose parties."""
        return self.K if self.dropouts is None else self.dropouts.min_survivors

    @property
    def retries(self) -> int:
        """R, how many sums a run may make again: 0, unless it may lose parties and makes sums again for that."""
        return 0 if self.dropouts is None else self.dropouts.retries or 0

    @property
    def lead(self) -> str:
        """The lead: the party that holds the secret half of the parties' Paillier key; "" where nobody leads."""
        return self.study.lead or ""

    @property
    def key_bits(self) -> int:
        """The length of the parties' Paillier key in bits; 0 where sums are made with masks."""
        return self.crypto.key_bits or 0

    @property
    def address(self) -> str:
        """The address at which Charlie, the curator, listens."""
        return self.curator.address

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """The names of a record's coordinates, the constant last."""
        encoded = tuple(name for f in self.features for name in f.coordinates)
        return (*encoded, INTERCEPT) if self.model.intercept else encoded

    @cached_property
    def covariates(self) -> tuple[str, ...]:
        """The names of a regression's columns, in treatment coding; the intercept is none of them."""
        return tuple(name for f in self.features for name in f.covariates)

    @property
    def d(self) -> int:
        """The number of coordinates of a record and of a classifier."""
        return len(self.coordinates)

    @property
    def multiclass(self) -> bool:
        """Whether the label has named classes; a classifier then has a row of weights for each."""
        return self.label.classes is not None

    @property
    def classes(self) -> int | None:
        """The number of named classes; 0 if the label is a number; None if it has two values."""
        if self.label.min is not None:
            return 0
        return None if self.label.classes is None else len(self.label.classes)

    @property
    def outputs(self) -> int:
        """The number of a classifier's rows: one for each named class, and 1 without named classes."""
        return self.classes or 1

    @property
    def countable(self) -> int:
        """The most records of a party that a run can count: n_j 2^m + rho(j) fits into 32 bits, m = ceil(log2 K)."""
        return (1 << (32 - (self.K - 1).bit_length())) - 1

    def most_of(self, name: str) -> int:
        """Return the most records that one party may have: its own ``max_records``, or that of the study."""
        return self._most(self.party(name))

    def _most(self, party: Party) -> int:
        return party.max_records or self.study.max_records or self.countable

    @cached_property
    def record_limits(self) -> Counter[int]:
        """How many parties may have at most so many records."""
        return Counter(map(self._most, self.parties))

    @property
    def max_records(self) -> int:
        """The most records that any party may have."""
        return max(self.record_limits)

    @property
    def fewest_records(self) -> int:
        """The fewest records that all parties together may have."""
        return self.K * self.study.min_records

    @property
    def most_records(self) -> int:
        """The most records that all parties together may have."""
        return sum(most * parties for most, parties in self.record_limits.items())

    def party(self, name: str) -> Party:
        """Return one party of the roster.

        Raises
        ------
        BadInput
            No party bears this name.
        """
        if name in self.place_of:
            return self.parties[self.place_of[name]]
        raise BadInput(f"{name!r} is not in the roster", f"name one of the parties: {', '.join(self.names)}")

    def names_key(self, key: PublicKeys) -> bool:
        """Return whether a participant of the study owns a key."""
        return key == self.curator.key or any(party.key == key for party in self.parties)

    def name_of(self, key: PublicKeys) -> str:
        """Return the owner of a key: a party's name, or ``CHARLIE``.

        Raises
        ------
        BadInput
            Nobody in the study owns it.
        """
        for name, known in ((CHARLIE, self.curator.key), *((p.name, p.key) for p in self.parties)):
            if known == key:
                return name
        raise BadInput(
            f"the key with fingerprint {key.fingerprint()} belongs to nobody in this study",
            "use the key whose public half you gave to the coordinator",
        )
