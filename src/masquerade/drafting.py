"""The input of ``study new``, put together: options, a file with columns, and the settings of another study."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from masquerade.codebook import Columns, Unranged, columns_from
from masquerade.columns import parse_feature, parse_label
from masquerade.draft import Draft, auxiliary_file, throwaway_key, with_some_keys
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.study import AuxiliaryFile, Feature, Study
from masquerade_core.study_files import read_study_text
from masquerade_core.words import listed
from masquerade_protocols import entry_named
from masquerade_protocols.registry import PURPOSES

__all__ = [
    "ColumnOptions",
    "draft_of",
    "left_open",
    "parse_setting",
    "placed",
    "protocol_for",
    "run_settings",
    "settings_of",
]

_FIELDS = frozenset(field.name for field in fields(Draft))
"""The fields of a draft."""

_EXAMPLE_PARTIES = ("site-a", "site-b", "site-c")

_DRAFTED = frozenset({"study", "privacy", "model", "crypto"})
"""Sections whose keys a draft has fields for, under the same names."""

_APART = frozenset({"protocol", "label", "feature", "curator", "party"})
"""Sections that are no list of settings."""

_OF_RUN = ("delta", "colluders", "loss", "out_of_bounds")
"""Settings that two runs of one study have in common whatever their parties, beside the protocol's own."""

_OF_SUMS = ("sum", "key_bits", "lead")
"""Settings that belong to the way in which a protocol makes its sums."""


@dataclass(frozen=True)
class ColumnOptions:
    """The options of ``study new`` that say what the columns are.

    Parameters
    ----------
    features : sequence of str
        Each ``--feature``.
    label : str or None
    file : path or None
        ``--features-from``.
    public_sample : bool
    ignore : sequence of str
    """

    features: Sequence[str] = ()
    label: str | None = None
    file: Path | None = None
    public_sample: bool = False
    ignore: Sequence[str] = ()


def _columns_of(options: ColumnOptions, like: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a draft's ``features`` and ``label``, as far as anybody gave them, and what is to be known of them.

    Parameters
    ----------
    options : ColumnOptions
    like : mapping
        Another study's, as :func:`settings_of` returns them; empty if there is none.

    Raises
    ------
    BadInput
        An option or a file cannot be used, or the options contradict each other.
    """
    given = tuple(parse_feature(text) for text in options.features)
    label = parse_label(options.label) if options.label else None
    if options.file is None and options.public_sample:
        raise BadInput(
            "--from-public-sample was given, but no --features-from FILE, whose records it is about",
            "add --features-from FILE",
        )
    if options.file is not None:
        source = options.file.name
        known = columns_from(
            options.file,
            public_sample=options.public_sample,
            ignore=options.ignore,
            label=None if label is None else label.name,
        )
        ignored = () if options.public_sample else options.ignore
    elif like:
        known, source = Columns(tuple(like["features"]), like["label"]), "the study of --like"
        ignored = options.ignore
    elif options.ignore:
        raise BadInput("--ignore was given, but no file of columns that it could leave out", "add --features-from FILE")
    else:
        return _given({"features": given, "label": label}), ()
    label = label or known.label
    if label is not None:
        known = Columns(tuple(f for f in known.features if f.name != label.name), known.label, known.notes)
    known = known.without(ignored, source).with_ranges(given, source)
    if not known.features:
        raise BadInput(f"{source} has no column that a study could learn from", "name a file with more columns")
    return _given({"features": known.features, "label": label}), known.notes


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def draft_of(
    given: Mapping[str, Any],
    columns: ColumnOptions,
    *,
    like: Path | None = None,
    auxiliary: Path | None = None,
    throwaway_keys: bool = False,
) -> tuple[Draft, tuple[str, ...]]:
    """Return the draft of a new study, and what is to be known of its columns.

    Parameters
    ----------
    given : mapping
        A draft's fields as far as options gave them; None and an empty value stand for what nobody gave.
    columns : ColumnOptions
    like : path, optional
        The study from which all comes that nobody gave.
    auxiliary : path, optional
        Public records without labels.
    throwaway_keys : bool
        Whether keys that nobody holds stand where none were given.

    Raises
    ------
    BadInput
        An option or a file cannot be used, or the options contradict each other.
    """
    known = {} if like is None else settings_of(like, given["protocol"], given["calibration"])
    chosen, notes = _columns_of(columns, known)
    values = known | chosen | {key: value for key, value in given.items() if value is not None and value != []}
    values["parameters"] = {**_family(values), **known.get("parameters", {}), **given["parameters"]}
    if given["parties"]:
        values |= {"min_parties": None, "lead": given["lead"]}
    elif not known:
        values["parties"] = [(name, None) for name in _EXAMPLE_PARTIES]
    missing = throwaway_key if throwaway_keys else lambda: None
    values["parties"] = [(name, key or missing()) for name, key in values["parties"]]
    values.setdefault("curator_key", missing())
    if auxiliary is not None:
        values["auxiliary"] = auxiliary_file(auxiliary, _ranged(values.get("features", Draft.features)))
    return Draft(**values), notes


def protocol_for(purpose: str | None, protocol: str | None) -> str | None:
    """Return the protocol of ``--for``, or of ``--protocol`` where that was given instead.

    Raises
    ------
    BadInput
        Both were given, or there is no such purpose.
    """
    if purpose is None:
        return protocol
    if protocol is not None:
        raise BadInput(
            f"--for {purpose} and --protocol {protocol} were given, and each of them chooses a protocol",
            "leave one of them out",
        )
    if purpose not in PURPOSES:
        raise BadInput(
            f"--for is {purpose!r}, but must be {listed(list(PURPOSES), 'or')}",
            "coefficients of a regression have intervals; statistics are of the columns, without a model",
        )
    return PURPOSES[purpose]


def _family(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the family of a regression, where the label is a number: a new study's is for one of two values."""
    label = values.get("label", Draft.label)
    fits = entry_named(values.get("protocol") or Draft.protocol).coefficients
    return {"family": "linear"} if fits and label.number is not None else {}


def placed(text: str) -> tuple[str, PublicKeys | None]:
    """Read ``NAME`` or ``NAME=PUBLICKEY``.

    Raises
    ------
    BadInput
        The key is none.
    """
    name, given, key = text.partition("=")
    try:
        return name, PublicKeys.parse(key) if given else None
    except BadInput as error:
        raise BadInput(f"the key after --party {name}= {error.message}", error.hint) from error


def left_open(draft: Draft, examples: Sequence[str]) -> str:
    """Say what of a draft has to be filled in, and which parts of it nobody asked for."""
    places = [] if draft.has_keys else ["keys"]
    if draft.unranged:
        places.append(f"the public range{'s' * (len(draft.unranged) > 1)} of {listed(draft.unranged)}")
    said = f", with places left for {listed(places)}" if places else ""
    if not examples:
        return said
    shown = {
        "feature": f"the columns {' and '.join(f.name for f in draft.features)}",
        "label": f"the label {draft.label.name}",
        "party": f"the parties {', '.join(who for who, _ in draft.parties)}",
    }
    options = " and ".join(f"no --{what}" for what in examples)
    return f"{said}. It holds examples, since {options} was given: " + "; ".join(shown[what] for what in examples)


def _ranged(features: Sequence[Feature | Unranged]) -> list[Feature]:
    """Return features that all have a range, as public records need to be read; BadInput if one has none."""
    ranged = [feature for feature in features if isinstance(feature, Feature)]
    if len(ranged) < len(features):
        raise BadInput(
            "the file of --auxiliary cannot be read, since columns have no range yet",
            "give their ranges with --feature, or leave --auxiliary out",
        )
    return ranged


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE``, with the value as in TOML; a word without quotes is text.

    Raises
    ------
    BadInput
        It is not of that form.
    """
    key, given, value = (part.strip() for part in text.partition("="))
    if not (key and given and value):
        raise BadInput(f"--set {text!r} is not KEY=VALUE", "write for example --set learning_rate=2.5")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def settings_of(path: Path, protocol: str | None, calibration: str | None = None) -> dict[str, Any]:
    """Return another study's columns, label and settings, as the fields of a draft.

    Its nonce and its keys are left out, for each study has its own. Keys that have not been filled in do no harm.

    Parameters
    ----------
    path : Path
    protocol : str or None
        The new study's protocol, if it is another one. Then the other's section, calibration and Lambda do not fit
        it.
    calibration : str or None
        The new study's, if somebody chose it.

    Raises
    ------
    BadInput
        It is no study.
    """
    study = Study.parse(with_some_keys(read_study_text(path)), str(path), in_memory=True)
    settings = _settings(study) | {
        "parties": [(name, None) for name in study.names],
        "address": study.address,
        "features": study.features,
        "label": study.label,
        **run_settings(study, protocol or study.study.protocol, calibration),
    }
    if protocol not in {None, study.study.protocol}:
        for key in ("regularization", *_OF_SUMS):
            settings.pop(key, None)
    elif (auxiliary := study.protocol.get("auxiliary")) is not None:
        settings["auxiliary"] = AuxiliaryFile.model_validate(auxiliary)
    return settings


def run_settings(study: Study, protocol: str, calibration: str | None = None) -> dict[str, Any]:
    """Return the settings that a run of other parties has in common with a study's, as the fields of a draft.

    Parameters
    ----------
    study : Study
    protocol : str
        With another one, the study's section and calibration do not fit it.
    calibration : str or None
        The run's, if somebody chose it.
    """
    known = _settings(study)
    settings = {"protocol": protocol, "more": known["more"], **{key: known[key] for key in _OF_RUN if key in known}}
    if protocol == study.study.protocol:
        chosen = calibration or study.privacy.calibration
        section = {
            key: value for key, value in study.protocol.items() if key not in {"auxiliary", *_left(study, chosen)}
        }
        settings |= {"parameters": section, "calibration": chosen, "sum": study.crypto.sum}
    if not study.proven and settings.get("calibration") != study.privacy.calibration:
        settings["colluders"] = None  # no noise of a paper depends on them, so their number was chosen for nothing
    return settings


def _left(study: Study, calibration: str) -> set[str]:
    """Return the settings that a new study with another calibration does not take over.

    These are the defaults of a study with the old calibration, and what only such a study has.
    """
    if calibration == study.privacy.calibration:
        return set()
    entry = entry_named(study.study.protocol)
    own, other = (tomllib.loads(entry.section_for(which)) for which in (study.privacy.calibration, calibration))
    return {key for key in own if key not in other or study.protocol.get(key) == own[key]}


def _settings(study: Study) -> dict[str, Any]:
    """Return a study's settings as the fields of a draft; ``more`` holds those for which a draft has no field.

    The calibration belongs to the protocol, and the nonce to one study.
    """
    settings: dict[str, Any] = {}
    more: dict[str, dict[str, Any]] = {}
    found = study.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    for section, key, value in [(s, key, value) for s in found if s not in _APART for key, value in found[s].items()]:
        if section in _DRAFTED and key in _FIELDS:
            settings[key] = value
        else:
            more.setdefault(section, {})[key] = value
    # A line that the file leaves out means what it meant there, whatever a new study would have.
    settings |= {"colluders": study.privacy.colluders, "out_of_bounds": study.study.out_of_bounds}
    return {key: settings[key] for key in settings if key not in {"nonce", "calibration"}} | {"more": more}
