"""Mistakes in a study as sentences: what stands there, what is allowed, and which word was perhaps meant."""

import difflib
import json
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from masquerade_core.words import counted, printable

__all__ = ["did_you_mean", "explain"]

# --- Text ------------------------------------------------------------------------

_KINDS = {
    "string_type": 'text in quotes, such as "a"',
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dataclass_type": 'a public key in quotes, "mq1:<curve key>:<signing key>"',
}
_PATTERNS = {
    "address": "tcp://HOST:PORT",
    "nonce": "16 to 64 letters, digits, '-' or '_', as 'masquerade study new' makes them",
    "text": "1 to 128 printable characters",
    "purpose": "1 to 400 printable characters",
    "name": "1 to 32 lower-case letters, digits or '-', beginning with a letter or digit",
}
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_LONGEST = 60
_LONGEST_SENTENCE = 600
_MOST = 20  # problems that a sentence lists


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return " (did you mean 'x'?)" for the nearest known word, or the list of known words if none is near."""
    near = difflib.get_close_matches(word[:_LONGEST], known, n=1, cutoff=0.55)
    if not known:
        return "; it may have none"
    return f" (did you mean '{near[0]}'?)" if near else f" (known are {', '.join(known)})"


def explain(error: ValidationError, root: type[BaseModel]) -> str:
    """Return in words everything that pydantic found wrong with a study, or with one of its tables."""
    errors = _without_echoes(sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden"))
    # Unknown keys come first: a missing key is often a misspelt one.
    sentences = [_cut(_sentence(e, root), _LONGEST_SENTENCE) for e in errors[:_MOST]]
    if len(sentences) == 1:
        return sentences[0]
    more = f"; and {counted(len(errors) - _MOST, 'more problem')}" if len(errors) > _MOST else ""
    return f"{len(errors)} problems: " + "; ".join(sentences) + more


def _without_echoes(errors: list[Any]) -> list[Any]:
    """Drop "too short" of a list with wrong entries: pydantic counts only the right ones."""
    wrong = [e["loc"] for e in errors]

    def echo(e: Any) -> bool:
        at = e["loc"]
        return e["type"] == "too_short" and any(loc[: len(at)] == at and len(loc) > len(at) for loc in wrong)

    return [e for e in errors if not echo(e)]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_at(root: type[BaseModel], path: Sequence[int | str]) -> type[BaseModel] | None:
    """Return the model at the end of ``path``, which begins at ``root``."""
    model: Any = root
    for step in path:
        if isinstance(step, str):
            if not (isinstance(model, type) and issubclass(model, BaseModel)) or step not in _fields(model):
                return None
            model = _fields(model)[step].annotation
        else:
            model = next(iter(get_args(model)), None)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _place(path: Sequence[int | str]) -> str:
    """Name a place in the file as its reader sees it: ``[privacy] epsilon``, ``[[party]] number 2, key``."""
    if not path:
        return ""
    if len(path) == 1:
        return f"[{path[0]}]"
    head, *rest = path
    if isinstance(rest[0], int):
        table = f"[[{head}]] number {rest[0] + 1}"
        rest = rest[1:]
        return f"{table}, {_steps(rest)}" if rest else table
    return f"[{head}] {_steps(rest)}"


def _steps(path: Sequence[int | str]) -> str:
    """Name a place below a section: ``auxiliary.file``, ``levels, item 2``."""
    first, *rest = path
    return (first if isinstance(first, str) else f"item {first + 1}") + "".join(
        f".{step}" if isinstance(step, str) else f", item {step + 1}" for step in rest
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    text = printable(text)
    return _cut(text, _LONGEST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _sentence(error: Any, root: type[BaseModel]) -> str:  # noqa: PLR0911  one return per kind of error
    path, kind, context = error["loc"], error["type"], error.get("ctx", {})
    path = tuple(step for step in path if not (isinstance(step, str) and "[" in step))
    place, last = _place(path), path[-1] if path else ""
    if kind == "value_error":
        text = str(context["error"])
        return f"{place} {text}" if text.startswith(("is ", "may ")) else text
    if kind == "extra_forbidden":
        parent = _model_at(root, path[:-1])
        hint = did_you_mean(str(last), list(_fields(parent))) if parent else ""
        where = _place(path[:-1]) if len(path) > 1 else "the top level"
        return f"{where} has an unknown key '{_cut(printable(str(last)), _LONGEST)}'{hint}"
    if kind == "missing":
        parent = _model_at(root, path[:-1])
        description = _fields(parent)[str(last)].description if parent else None
        return f"{place} is missing" + (f": {description}" if description else "")
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{place} is {_shown(error['input'])}, but must be {words} {context[key]:g}"
    if kind in {"string_pattern_mismatch", "string_too_long"}:  # only a text has its length beside its pattern
        text = kind == "string_too_long" or context["pattern"].startswith(r"\A[^")
        wanted = _PATTERNS.get(str(last), _PATTERNS["text" if text else "name"])
        return f"{place} is {_shown(error['input'])}, but must be {wanted}"
    if kind == "literal_error":
        return f"{place} is {_shown(error['input'])}, but must be {context['expected'].replace(chr(39), chr(34))}"
    if kind in {"too_short", "too_long"}:
        bound = context.get("min_length", context.get("max_length"))
        entries = counted(context["actual_length"], "entry", "entries")
        return f"{place} has {entries}, but must have at {_most(kind)} {bound}"
    return f"{place} is {_shown(error['input'])}, but must be {_KINDS.get(kind, 'something else: ' + error['msg'])}"


def _most(kind: str) -> str:
    return "least" if kind == "too_short" else "most"
