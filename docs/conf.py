"""Sphinx builds the pages of this repository into a site: ``make docs``.

The source folder is the root of the repository, so that a link between two pages is the same on a code host and here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # notebooks run the program

import masquerade_core  # noqa: E402 (the extensions' folder comes first)

project = "masquerade"
author = "masquerade developers"
version = release = masquerade_core.__version__
language = "en"
smartquotes = False  # it would make a dash of an option's two hyphens

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "examples/**.md"]
exclude_patterns = [".*", "build", "dist", "runs", "src", "tests", "**/__pycache__"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "masquerade_docs",
]

# --- Markdown --------------------------------------------------------------------

source_suffix = {".md": "myst-nb"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # the anchors of a code host

# --- Docstrings ------------------------------------------------------------------

autodoc_typehints = "none"  # the docstrings say them in words
autodoc_member_order = "bysource"
nitpicky = True
nitpick_ignore_regex = [
    (r"py:(class|exc|obj|data)", r".*")
]  # the docstrings' types are words, such as "mapping of str"
nitpick_ignore = [("py:mod", "masquerade_core.wire.faults")]
suppress_warnings = ["ref.python"]  # a name that a package passes on has two homes
doctest_global_setup = "import examples_place; test = examples_place.enter()"
trim_doctest_flags = True

# --- Notebooks -------------------------------------------------------------------

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_merge_streams = True
nb_execution_timeout = 120  # seconds for a cell
nb_execution_raise_on_error = True

# --- The site --------------------------------------------------------------------

html_theme = "furo"
html_title = "masquerade"
html_static_path = ["static"]
html_css_files = ["masquerade.css"]
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_additional_pages = {"index": "start.html"}
templates_path = ["templates"]
pygments_style = "a11y-high-contrast-light"  # 7:1; others are hard to read on grey
