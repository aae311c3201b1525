"""The pages' commands: each is run, or says why not; the runner notices what goes wrong; pages name what is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs import commands
from docs.commands import Block, blocks_of, missing, pages, run_page

from tests import ROOT
from tests.pages import Page, defined_tests, every_command
from tests.unit.pages.test_readme import sentences

NOT_RUN = 28
"""So many blocks at most are run by nobody. Each says why."""

BLOCKS = [block for page in pages() for block in blocks_of(page)]


def test_there_are_many_commands_and_few_that_nobody_runs() -> None:
    left = [block for block in BLOCKS if "not run" in block.marks]
    assert len(BLOCKS) > 80
    assert len(left) <= NOT_RUN, [block.name for block in left]
    assert [block.name for block in left if len(block.marks["not run"].split()) < 3] == []


def test_who_is_said_to_run_a_block_is_there_and_knows_the_page_or_the_command() -> None:
    for block in BLOCKS:
        for path in filter(None, re.split(r",\s*", block.marks.get("run by", ""))):
            text = (ROOT / path).read_text(encoding="utf-8")
            knows = path.startswith(".ci/") or block.page in text or re.search(r"from tests\.\w+ import .*PAGE", text)
            assert knows or all(word in text for word in block.text.split()[:2]), f"{block.name}: {path}"


def test_what_a_comment_exchanges_stands_in_its_block() -> None:
    for block in BLOCKS:
        assert isinstance(block.commands, str)  # else it is an error


def test_every_comment_before_a_block_has_a_known_meaning() -> None:
    known = commands.MARKS | commands.WHOLE.keys() | {"default"}
    for page in pages():
        for key in re.findall(r"<!-- ([a-z ]+):", Page(page).text):
            assert key in known, f"{page}: <!-- {key}: is not known"


def test_no_block_of_commands_hides_in_a_fence_without_a_language() -> None:
    for page in pages():
        named_left_out = re.sub(r"(?ms)^```\w.*?^```$", "", Page(page).text)
        for content in re.findall(r"(?ms)^```\n(.*?)^```", named_left_out):
            assert not commands.PROGRAM.match(content), f"{page}: say sh:\n{content}"


# --- The runner ------------------------------------------------------------------


def wrong(text: str) -> list[str]:
    """The faults of each block of a page that ran."""
    return [one.wrong for one in run_page(blocks_of("a/page.md", text))]


def test_the_runner_runs_a_page_s_blocks_in_one_folder_with_a_home_of_its_own(tmp_path: Path) -> None:
    text = f"""
```sh
echo one > kept
test "$HOME" != ~root && echo "$HOME" > {tmp_path}/home
```

    make --version > made

```console
$ cat \\
    kept
one
```

```python
print(open("kept").read())
```
<!-- shows -->
```text
one
```
"""
    assert wrong(text) == [""] * 4
    assert not Path((tmp_path / "home").read_text().strip()).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nfalse\n```", "exit code 1, where 0 is expected"),
        ("```sh\nfalse | true\n```", "exit code 1, where 0"),
        ("<!-- exit code: 3 -->\n\n```sh\ntrue\n```", "exit code 0, where 3"),
        ("```console\n$ echo one\ntwo\n```", "no line like 'two'"),
        ("```sh\necho one\n```\n\n<!-- shows -->\n\n```text\ntwo\n```", "no line like 'two'"),
        ("```python\nraise ValueError\n```", "exit code 1"),
        ("    python3 -c 'import sys; sys.exit(5)'", "exit code 5"),
        ("<!-- first: false -->\n```sh\ntrue\n```", "exit code 1"),
        ("<!-- types: no -->\n\n```sh\nread word; test $word = yes\n```", "exit code 1"),
    ],
)
def test_the_runner_notices(text: str, said: str) -> None:
    (found,) = wrong(text)
    assert said in found


def test_what_follows_a_failure_is_not_run() -> None:
    assert len(wrong("```sh\nfalse\n```\n\n```sh\ntrue\n```")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "<!-- exit code: 3 -->\n\n```sh\nexit 3\n```",
        "<!-- types: yes -->\n\n```sh\nread word; test $word = yes; test -t 0\n```",
        "<!-- with: MODEL => ok -->\n\n```sh\ntest MODEL = ok\n```",
        "<!-- first: sleep 60 & -->\n<!-- last: kill %1 -->\n\n```sh\ntrue\n```",
    ],
)
def test_a_comment_changes_how_a_block_runs(text: str) -> None:
    found = wrong(text)
    assert found == [""] or "Terminated" in found[0] or found[0].startswith("exit code 143")


def test_marked_blocks_are_left_out() -> None:
    assert wrong("<!-- not run: it needs a second machine -->\n\n```sh\nfalse\n```") == []
    assert wrong("# A\n\n<!-- this page is run by: tests/x.py -->\n\n```sh\nfalse\n```\n\n```sh\nfalse\n```") == []


def test_outputs_are_compared_whatever_their_numbers_and_line_breaks() -> None:
    assert missing(["error  4.4%  what everybody gets"], "x\n error 13.5%  what\n   everybody gets\n") == []
    assert missing(["error  4.4%  what everybody gets"], "error 4.4%  what nobody gets") != []


def test_an_exchange_of_what_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="which the block does not have"):
        _ = Block("p.md", 1, "sh", "true\n", {"with": "gone => here"}).commands


# --- What pages name -------------------------------------------------------------


def named_in_text() -> Iterator[tuple[str, list[str]]]:
    """The command lines that stand in the pages' sentences and tables, as words."""
    for page in pages():
        if page == "CHANGELOG.md":
            continue  # it tells of names that are gone
        text = re.sub(r"(?ms)^```.*?^```$|<!--.*?-->", "", Page(page).text)
        for code in re.findall(r"`masquerade ([^`]+)`", text):
            try:
                yield page, shlex.split(" ".join(code.split()))
            except ValueError:  # a lone quotation mark
                yield page, code.split()


def test_commands_in_sentences_exist_and_have_the_options_named() -> None:
    known = every_command()
    groups = {name.split()[0] for name in known if " " in name}
    checked = 0
    for page, words in named_in_text():
        if words[0].startswith(("-", "COMMAND", "...")):
            continue
        name = " ".join(words[:2]) if words[0] in groups and len(words) > 1 else words[0]
        if name.partition(" ")[2].startswith("-"):  # a group that is a command as well
            name = words[0]
        if (name in groups and name not in known) or name in {f"{group} COMMAND" for group in groups}:
            continue
        assert name in known, f"{page}: masquerade {' '.join(words)}"
        options = {
            option for parameter in known[name].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options | {"--help"}, f"{page}: masquerade {' '.join(words)}"
        checked += 1
    assert checked > 80


def test_the_table_of_gaps_names_tests_and_pages_that_exist() -> None:
    page = Page("docs/gaps.md")
    assert len(page.tests) > 10
    assert page.tests <= defined_tests()
    rows = [line for line in page.text.splitlines() if line.startswith("| ")][1:]
    assert {row.split("|")[1].split()[0].strip(",") for row in rows} >= {"Pathak", "Rajkumar", "Kang", "Hamm", "Bixler"}
    assert [row for row in rows if "](" not in row and "`test_" not in row] == []


NEW = (
    "tutorial",
    "faq",
    "gaps",
    "howto/site",
    "howto/coordinator",
    "howto/researcher",
    "reference/commands",
    "coefficients",
)


@pytest.mark.parametrize("name", NEW)
def test_new_pages_have_short_sentences_and_links_that_lead_somewhere(name: str) -> None:
    page = Page(f"docs/{name}.md")
    assert page.broken_links == []
    text = re.sub(r"<!--.*?-->", "", page.text, flags=re.DOTALL)
    assert [sentence for sentence in sentences(text) if len(sentence.split()) > 25] == []


@pytest.mark.parametrize("name", ["first-study", "compare-protocols", "break-a-claim", "coefficients"])
def test_a_notebook_is_a_text_without_outputs_whose_cells_are_checked(name: str) -> None:
    text = Page(f"docs/notebooks/{name}.md").text
    assert text.startswith("---\njupytext:\n")
    assert "outputs" not in text
    assert "assert " in text
    assert Page(f"docs/notebooks/{name}.md").broken_links == []
