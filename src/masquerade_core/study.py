"""The study file: everything that changes the result or its privacy, in one place that everybody signs.

TOML in, frozen values out. Nothing here is ever read off private data: bounds, levels and the smallest number of
records are public. Every problem is a :class:`~masquerade_core.errors.BadInput` whose sentence names the section and
the key; the study is public, so its values may be shown.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from masquerade_core._study_sections import (
    CHARLIE,
    AuxiliaryFile,
    Crypto,
    Curator,
    Feature,
    Label,
    Model,
    Party,
    Privacy,
    Section,
    StudySection,
)
from masquerade_core._study_text import explain, to_toml
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys

__all__ = [
    "CHARLIE",
    "INTERCEPT",
    "AuxiliaryFile",
    "Crypto",
    "Curator",
    "Feature",
    "Label",
    "Model",
    "Party",
    "Privacy",
    "PublicKeys",
    "Study",
    "StudySection",
    "as_fraction",
    "check_section",
]

INTERCEPT = "(intercept)"
"""The name of the constant coordinate."""

_NETWORK_KEY_BITS = (2048, 3072)


def as_fraction(x: float) -> Fraction:
    """Return the decimal number that the study's file shows for ``x``, exactly: 0.1 is 1/10.

    Two machines that read the same study so compute the same noise scale to the last bit.
    """
    return Fraction(repr(float(x)))


class Study(Section):
    """One study, whole and checked.

    Features and parties keep the order of the file: it is the order of coordinates and of the roster.
    """

    study: StudySection
    privacy: Privacy
    model: Model
    crypto: Crypto = Crypto()
    protocol: dict[str, Any] = Field(default_factory=dict)
    label: Label
    features: Annotated[tuple[Feature, ...], Field(alias="feature", strict=False, min_length=1)]
    curator: Curator
    parties: Annotated[tuple[Party, ...], Field(alias="party", strict=False, min_length=1, max_length=1024)]

    @field_validator("protocol")
    @classmethod
    def _json_values(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError("may hold only text, finite numbers, true, false and lists or tables of them") from error
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

    def _roster_problems(self) -> Iterator[str]:
        rules, K = self.study, self.K
        if (name := _first_repeated(self.names)) is not None:
            yield f"party {name!r} stands in the roster twice; names must differ"
        if rules.min_parties > K:
            yield f"the roster has {K} parties, but min_parties is {rules.min_parties}"
        if rules.lead not in self.names:
            yield f"[study] lead is {rules.lead!r}, but the parties are {', '.join(self.names)}"
        if (t := self.privacy.colluders) >= K:
            yield f"[privacy] colluders is {t}, but at least one of the {K} parties must be honest"
        if rules.min_records > self.max_records:
            yield f"[study] min_records is {rules.min_records}; each of {K} parties may have at most {self.max_records}"

    def _key_problems(self) -> Iterator[str]:
        keys = [("the curator", self.curator.key), *((f"party {p.name!r}", p.key) for p in self.parties)]
        for half in ("curve", "sign"):
            owners: dict[bytes, str] = {}
            for owner, key in keys:
                other = owners.setdefault(getattr(key, half), owner)
                if other != owner:
                    yield f"{other} and {owner} have the same key; everybody needs their own"

    def _column_problems(self) -> Iterator[str]:
        columns = [f.name for f in self.features]
        if (name := _first_repeated(columns)) is not None:
            yield f"feature {name!r} stands in the study twice; features must differ"
        if self.label.name in columns:
            yield f"the label {self.label.name!r} is a feature as well; it can be only one of them"
        if (name := _first_repeated(self.coordinates)) is not None:
            yield f"two features would both become the coordinate {name!r}; rename one"

    @classmethod
    def parse(cls, text: str, source: str = "study", *, in_memory: bool = False) -> Self:
        """Read a study from TOML text; ``source`` names it in errors.

        Raises
        ------
        BadInput
            The text is no valid study; the sentence says what was seen and what is allowed.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"{source} is not TOML: {error}") from error
        try:
            study = cls.model_validate(data)
        except ValidationError as error:
            raise BadInput(f"{source}: {explain(error, cls)}") from error
        return study if in_memory else study.for_network()

    def for_network(self) -> Self:
        """Return this study if networked processes may run it.

        Raises
        ------
        BadInput
            The key is of a length that only the in-memory table may use, or there is one party alone.
        """
        if self.crypto.key_bits not in _NETWORK_KEY_BITS:
            raise BadInput(
                f"[crypto] key_bits is {self.crypto.key_bits}, but between processes only 2048 and 3072 are allowed",
                "set key_bits = 2048; other lengths are for the in-memory table alone",
            )
        if min(self.K, self.study.min_parties) == 1:
            raise BadInput(
                f"the roster has {self.K} parties and min_parties is {self.study.min_parties}, but between processes "
                "there are at least two: one alone has nobody to talk to",
                "add parties, or run the study at the in-memory table, with 'masquerade simulate'",
            )
        return self

    def to_toml(self) -> str:
        """Return the study as TOML; :meth:`parse` reads it back to an equal study."""
        return to_toml(self.model_dump(mode="json", by_alias=True, exclude_none=True))

    def canonical(self) -> dict[str, str]:
        """Return every field, defaults included, under its dotted name as canonical JSON text, in a fixed order."""
        dump = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {name: _json(value) for name, value in _flat(dump)}

    def field_hashes(self) -> dict[str, bytes]:
        """Return 16 bytes per field of :meth:`canonical`, by which two studies can say where they differ."""
        return {k: hashlib.blake2b(v.encode(), digest_size=16).digest() for k, v in self.canonical().items()}

    def digest(self) -> bytes:
        """Return the 32 bytes that stand for this study."""
        return hashlib.blake2b(_json(self.canonical()).encode(), digest_size=32, person=b"masq study").digest()

    def run_id(self, version: str) -> bytes:
        """Return the 16 bytes that stand for a run of this study by this version of the program."""
        seed = b"masquerade run" + self.digest() + version.encode()
        return hashlib.blake2b(seed, digest_size=16).digest()

    @property
    def names(self) -> tuple[str, ...]:
        """The parties in roster order."""
        return tuple(p.name for p in self.parties)

    @property
    def K(self) -> int:  # noqa: N802
        """The number of parties."""
        return len(self.parties)

    @property
    def proven(self) -> bool:
        """Whether the noise is what a proof needs for the wish, and not the paper's."""
        return self.privacy.calibration == "proven"

    @property
    def honest(self) -> int:
        """h: the parties that do not side with Charlie, whose noise counts."""
        return self.K - self.privacy.colluders

    @property
    def lead(self) -> str:
        """The party that holds the parties' Paillier key."""
        return self.study.lead

    @property
    def address(self) -> str:
        """Where Charlie listens."""
        return self.curator.address

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """The names of a record's coordinates, the constant last."""
        encoded = tuple(name for f in self.features for name in f.coordinates)
        return (*encoded, INTERCEPT) if self.model.intercept else encoded

    @property
    def d(self) -> int:
        """The number of coordinates of a record and of a classifier."""
        return len(self.coordinates)

    @property
    def multiclass(self) -> bool:
        """Whether the label has named classes, and a classifier a row of weights for each."""
        return self.label.classes is not None

    @property
    def classes(self) -> int | None:
        """How many named classes there are; None where one of two values counts as +1."""
        return None if self.label.classes is None else len(self.label.classes)

    @property
    def outputs(self) -> int:
        """Rows of a classifier: 1 where one of two values counts as +1, else one for each class."""
        return self.classes or 1

    @property
    def max_records(self) -> int:
        """The most records a party may have: n_j 2^m + rho(j) fits into 32 bits, m = ceil(log2 K)."""
        return (1 << (32 - (self.K - 1).bit_length())) - 1

    def party(self, name: str) -> Party:
        """Return one party of the roster.

        Raises
        ------
        BadInput
            No party bears this name.
        """
        for party in self.parties:
            if party.name == name:
                return party
        raise BadInput(f"{name!r} is not in the roster; the parties are {', '.join(self.names)}")

    def name_of(self, key: PublicKeys) -> str:
        """Return who owns a key: a party's name, or ``CHARLIE``.

        Raises
        ------
        BadInput
            Nobody in the study does.
        """
        for name, known in ((CHARLIE, self.curator.key), *((p.name, p.key) for p in self.parties)):
            if known == key:
                return name
        raise BadInput(
            f"the key with fingerprint {key.fingerprint()} belongs to nobody in this study",
            "use the key whose public half the coordinator was given",
        )


def check_section(model: type[BaseModel], values: dict[str, Any], section: str) -> None:
    """Check a table whose form is known elsewhere, as a protocol's own parameters are.

    Raises
    ------
    BadInput
        An unknown key or a value out of range, in the words of :meth:`Study.parse`.
    """
    root = create_model("Root", **{section: (model, ...)})  # type: ignore[call-overload]  # a field by its name
    try:
        root.model_validate({section: values})
    except ValidationError as error:
        raise BadInput(explain(error, root)) from error


def _first_repeated(values: tuple[str, ...] | list[str]) -> str | None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _flat(dump: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for section, content in dump.items():
        rows = content if isinstance(content, list) else [content]
        for index, row in enumerate(rows):
            prefix = f"{section}.{index}" if isinstance(content, list) else section
            for key in sorted(row):
                yield f"{prefix}.{key}", row[key]
