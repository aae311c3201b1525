"""An extension of Sphinx for the site: the commands' help as a page, and links to folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import NumpyDocstring

from masquerade.cli.app import app as program

COMMANDS = "<!-- here the site has every command's help -->"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the handlers with Sphinx."""
    app.connect("source-read", put_commands)
    app.connect("autodoc-process-docstring", keep_bars, priority=400)  # before napoleon
    app.connect("autodoc-skip-member", skip_requests)
    app.connect("doctree-read", words_for_folders)
    app.connect("html-page-context", reachable, priority=900)  # after the theme
    app.connect("build-finished", refuse_networks)
    NumpyDocstring._parse_attribute_docstring = whole_docstring  # noqa: SLF001 (no setting turns it off)
    app.add_lexer("mermaid", TextLexer)  # a code host draws these diagrams; the site shows their text
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def put_commands(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Replace the mark in a page by the help of all commands."""
    if COMMANDS in source[0]:
        source[0] = source[0].replace(COMMANDS, "\n".join(help_of_commands()))


def reachable(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None) -> None:
    """Let the keyboard reach what scrolls sideways, and give the sidebar's headings their level."""
    if "body" in context:
        # Of a notebook's table, Rich writes the dim parts in a grey that is too light.
        body = context["body"].replace("<pre>", '<pre tabindex="0">').replace("<pre style", '<pre tabindex="0" style')
        body = body.replace("color: #7f7f7f; text-decoration-color: #7f7f7f", "color: inherit")
        context["body"] = body.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
    tree = context.get("furo_navigation_tree")
    if tree is not None:
        context["furo_navigation_tree"] = str(tree).replace('role="heading"', 'role="heading" aria-level="2"')


def words_for_folders(app: Sphinx, page: nodes.document) -> None:
    """Show a link to a folder as its words: a code host lists the folder, and the site has nothing to show."""
    for link in list(page.findall(pending_xref)):
        here = Path(app.srcdir, link.get("refdoc", "")).parent
        if link.get("reftype") == "myst" and (here / link["reftarget"]).is_dir():
            link.replace_self(nodes.inline("", "", *link.children))


def keep_bars(_app: Sphinx, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Escape the bars of a norm, such as ``|w|``, which reStructuredText would take for a substitution."""
    literal = None  # the indent of the line that began a literal block
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        if literal is None:
            pieces = line.split("``")
            lines[i] = "``".join(p if n % 2 else p.replace("|", "\\|") for n, p in enumerate(pieces))
            if line.rstrip().endswith("::"):
                literal = indent


def skip_requests(_app: Sphinx, _what: str, name: str, _thing: object, _skip: bool, _options: object) -> bool | None:
    """Leave out what scikit-learn puts into every estimator to route a call's extra arguments."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def whole_docstring(docstring: NumpyDocstring) -> list[str]:
    """Take a property's docstring as it is: napoleon would read "The sum: ..." as a type and its meaning."""
    return docstring._consume_to_end()  # noqa: SLF001 (as above)


def refuse_networks(app: Sphinx, failed: Exception | None) -> None:
    """End the build if a page would load something from a network: a script, a style, a font or a picture."""
    if failed is not None or app.builder.format != "html":
        return
    loads = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=[\"'](?:https?:)?//[^\"']+", re.IGNORECASE)
    for page in sorted(Path(app.outdir).rglob("*.html")):
        if found := loads.search(page.read_text(encoding="utf-8")):
            raise ExtensionError(f"{page} loads something from a network: {found[0]}")


def help_of_commands() -> Iterator[str]:
    """Yield the lines of Markdown that describe every command, with those of its groups."""
    top: Any = typer.main.get_command(program)
    for name in sorted(top.list_commands(None)):
        command = top.get_command(None, name)
        inner = getattr(command, "commands", None)
        if inner is None or command.invoke_without_command:
            yield from _help(f"masquerade {name}", command)
        for verb, under in sorted((inner or {}).items()):
            yield from _help(f"masquerade {name} {verb}", under)


def _help(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    yield from (f"## {name}", "", _plain(command.help or ""), "", "```text", usage, "```", "")
    records = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    if records:
        yield from ("| argument or option | meaning |", "|---|---|")
        yield from (f"| `{_cell(words)}` | {_cell(_plain(meaning))} |" for words, meaning in records)
        yield ""


def _plain(text: str) -> str:
    """Return words of a terminal so that Markdown shows them as they are."""
    for sign in "\\*_<>[]`$":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
