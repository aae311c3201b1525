"""The text side of a study: its values as TOML and JSON, each in one fixed way, and its fields by name."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError, create_model

from masquerade_core.errors import BadInput

__all__ = ["check_section", "first_repeated", "flat", "json_text", "to_toml"]


def to_toml(data: Mapping[str, Any]) -> str:
    """Write tables, and lists of tables, of plain values as TOML."""
    blocks = []
    for section, content in data.items():
        rows, head = (content, f"[[{section}]]") if isinstance(content, list) else ([content], f"[{section}]")
        blocks += ["\n".join([head, *(f"{_key(k)} = {_value(v)}" for k, v in row.items())]) for row in rows]
    return "\n\n".join(blocks) + "\n"


def _key(key: str) -> str:
    return key if key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, str):  # TOML has JSON's escapes, and also wants DEL escaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value, allow_nan=False)


# --- Fields ----------------------------------------------------------------------


def check_section(model: type[BaseModel], values: dict[str, Any], section: str) -> None:
    """Check a table whose form another module defines, such as a protocol's own parameters.

    Raises
    ------
    BadInput
        The table has an unknown key or a value out of range. The words are those of :meth:`Study.parse`.
    """
    root = create_model("Root", **{section: (model, ...)})  # type: ignore[call-overload]  # a field by its name
    try:
        root.model_validate({section: values})
    except ValidationError as error:
        from masquerade_core.study.mistakes import explain

        raise BadInput(explain(error, root)) from error


def first_repeated(values: Sequence[str]) -> str | None:
    """Return the first value that stands there a second time."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def json_text(value: Any) -> str:
    """Return a value as JSON, in one fixed way."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def flat(dump: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of all tables: the dotted name and the value."""
    for section, content in dump.items():
        rows = content if isinstance(content, list) else [content]
        for index, row in enumerate(rows):
            prefix = f"{section}.{index}" if isinstance(content, list) else section
            for key in sorted(row):
                yield f"{prefix}.{key}", row[key]
