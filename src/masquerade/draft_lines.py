"""Single lines of a study's draft: values set or added, and places to be filled in."""

import json
import re
from collections.abc import Mapping
from typing import Any

from masquerade.codebook import Unranged
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature
from masquerade_core.study.mistakes import did_you_mean
from masquerade_core.study.text import to_toml
from masquerade_protocols import Protocol

__all__ = ["stand_in", "unranged_block", "with_more", "with_settings"]

_OPTIONS = {"rounds": "--rounds", "clip": "--clip"}

_FILL_IN = {
    "number": "min = ... and max = ..., or edges = [...]",
    "text": "levels = [...]",
    "": "min = ... and max = ..., or levels = [...], or edges = [...]",
}


def with_settings(section: str, entry: Protocol, wanted: Mapping[str, Any]) -> str:
    """Set values of a protocol's section, and add those of its settings that it does not show.

    Raises
    ------
    BadInput
        The protocol has no such setting.
    """
    known = entry.parameters.model_fields
    for key, value in wanted.items():
        if key not in known:
            others = did_you_mean(key, list(known)) if known else ""
            raise BadInput(
                f"{entry.name} has no {key} to choose{others}", f"leave {_OPTIONS.get(key, f'--set {key}=...')} out"
            )
        section, found = _set(section, key, value)
        if not found:
            note = known[key].description
            section += (f"# {note[:1].upper()}{note[1:]}.\n" if note else "") + f"{key} = {_toml(value)}\n"
    return section


def with_more(text: str, more: Mapping[str, Mapping[str, Any]]) -> str:
    """Set keys of a study's text, by section, and add the keys and sections that it does not have."""
    for section, values in more.items():
        head, found, rest = text.partition(f"\n[{section}]\n")
        if not found:
            text += "\n" + to_toml({section: values})
            continue
        match = re.search(r"^\[", rest, flags=re.MULTILINE)
        end = match.start() if match else len(rest)
        body = rest[:end]
        for key, value in values.items():
            body, there = _set(body, key, value)
            body = body if there else f"{key} = {_toml(value)}\n{body}"
        text = head + found + body + rest[end:]
    return text


def _set(text: str, key: str, value: Any) -> tuple[str, bool]:
    """Put a value into the line of its key, and say whether there is such a line."""
    line = f"{key} = {_toml(value)}"
    text, count = re.subn(rf"^{key} = .*$", lambda _: line, text, flags=re.MULTILINE)
    return text, bool(count)


def _toml(value: Any) -> str:
    return to_toml({"x": {"x": value}}).partition(" = ")[2].rstrip("\n")


def unranged_block(feature: Unranged) -> str:
    """Return the block of a column whose range is to be filled in; a study with it does not pass the check."""
    name = json.dumps(feature.name, ensure_ascii=False)
    return (
        f"[[feature]]\nname = {name}\n# FILL IN {_FILL_IN[feature.kind]}.\n"
        "# Take them from what is public about the column, never from the records.\n"
    )


def stand_in(feature: Feature | Unranged) -> Feature:
    """Return a feature with some range, so that the rest of a study can be checked."""
    return Feature(name=feature.name, min=0.0, max=1.0) if isinstance(feature, Unranged) else feature
