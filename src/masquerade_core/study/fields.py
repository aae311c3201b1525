"""Operations on any table of fields: check it, flatten it, and write a value in one fixed way."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError, create_model

from masquerade_core.errors import BadInput
from masquerade_core.study.text import explain

__all__ = ["check_section", "first_repeated", "flat", "json_text"]


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
