"""Columns as a command line names them: ``--feature age:0:120``, ``--label outcome:yes``, ``--rename sex:female=f``."""

import re

from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label

__all__ = ["parse_feature", "parse_label", "parse_rename"]

_THREE = 3


def parse_feature(text: str) -> Feature:
    """Read ``NAME:MIN:MAX``, ``NAME:LEVEL,LEVEL,...`` or ``NAME:edges:EDGE,EDGE,...``.

    A colon, a comma or a backslash that belongs to a name or a level has a backslash before it.

    Raises
    ------
    BadInput
        It is none of them.
    """
    parts = _split(text, ":")
    name, middle, last = ":".join(parts[:-2]), parts[-2] if len(parts) > 1 else "", parts[-1]
    if len(parts) >= _THREE and middle == "edges":
        try:
            return Feature(name=_unescaped(name), edges=tuple(float(edge) for edge in last.split(",")))
        except ValueError as error:
            raise BadInput(
                f"--feature {text!r}: the edges must be numbers, each larger than the one before it", _FEATURE_HINT
            ) from error
    try:
        if len(parts) >= _THREE:
            low, high = float(middle), float(last)
            return Feature(name=_unescaped(name), min=low, max=high)
    except ValueError as error:
        if "could not convert" not in str(error):
            raise BadInput(f"--feature {text!r}: MIN must be a number smaller than MAX", _FEATURE_HINT) from error
    try:
        return Feature(name=_unescaped(":".join(parts[:-1])), levels=_listed(last))
    except ValueError as error:
        raise BadInput(
            f"--feature {text!r} is neither NAME:MIN:MAX nor NAME:LEVEL,LEVEL,... nor NAME:edges:EDGE,EDGE,...",
            _FEATURE_HINT,
        ) from error


_ESCAPE_HINT = "where a name or a value holds a colon or a comma itself, write \\: or \\, for it"
_FEATURE_HINT = (
    f"write for example --feature age:0:120 or --feature sex:f,m or --feature age:edges:25,35,50; {_ESCAPE_HINT}"
)


def parse_label(text: str) -> Label:
    """Read ``NAME:POSITIVE``, ``NAME:CLASS,CLASS,...`` or ``NAME:MIN:MAX``; backslashes as in :func:`parse_feature`.

    Raises
    ------
    BadInput
        It is not of that form.
    """
    parts = _split(text, ":")
    name, values = _unescaped(":".join(parts[:-1])), _listed(parts[-1])
    try:
        if len(parts) >= _THREE and (ends := _numbers(parts[-2:])) is not None:
            return Label(name=_unescaped(":".join(parts[:-2])), min=ends[0], max=ends[1])
        if len(values) > 1:
            return Label(name=name, classes=values)
        return Label(name=name, positive=_unescaped(parts[-1]))
    except ValueError as error:
        raise BadInput(
            f"--label {text!r} is neither NAME:POSITIVE nor NAME:CLASS,CLASS,... nor NAME:MIN:MAX",
            "write for example --label outcome:yes, or --label stage:i,ii,iii, or --label pressure:60:240; "
            f"{_ESCAPE_HINT}",
        ) from error


def parse_rename(text: str) -> tuple[str, dict[str, str]]:
    """Read ``COLUMN:WORD=VALUE,WORD=VALUE,...``; backslashes as in :func:`parse_feature`, and before an equals sign.

    Returns
    -------
    str
        The column.
    dict of str to str
        For each word of a file the value that it stands for; the empty text for a missing value.

    Raises
    ------
    BadInput
        It is not of that form, or a word is a question mark, which a message has in the place of a word.
    """
    parts = _split(text, ":")
    pairs = [_split(pair, "=") for pair in _split(parts[-1], ",")]
    hint = f"write for example --rename sex:female=f,male=m, or --rename age:9999= for a missing value; {_ESCAPE_HINT}"
    if len(parts) < 2 or any(len(pair) != 2 or not pair[0].strip() for pair in pairs):  # noqa: PLR2004
        raise BadInput(f"--rename {text!r} is not COLUMN:WORD=VALUE,WORD=VALUE,...", hint)
    words = [_unescaped(word).strip() for word, _ in pairs]
    if "?" in words:
        raise BadInput(
            f"--rename {text!r} has a question mark where a word of your file belongs",
            "put the word that the file has in the place of the '?' before '='",
        )
    if twice := next((word for word in words if words.count(word) > 1), None):
        raise BadInput(f"--rename {text!r} says twice what {twice!r} stands for", "say it once")
    return _unescaped(":".join(parts[:-1])), dict(
        zip(words, (_unescaped(value).strip() for _, value in pairs), strict=True)
    )


def _numbers(texts: list[str]) -> list[float] | None:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return None


def _split(text: str, separator: str) -> list[str]:
    """Split at each separator that no backslash escapes; the parts keep their backslashes."""
    parts = [""]
    for token in re.findall(r"\\[:,=\\]|.", text, flags=re.DOTALL):
        if token == separator:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _unescaped(text: str) -> str:
    return re.sub(r"\\([:,=\\])", r"\1", text)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(_unescaped(value).strip() for value in _split(text, ","))
