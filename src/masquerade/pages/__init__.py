"""Pages for people who decide: the report of a finished run, and a study for signature, each as one HTML file.

A page needs no network and no script. Its styles and pictures stand inside it, and its security policy allows nothing
else. All texts that come from files of others are escaped.
"""

from masquerade.pages.render import require_jinja
from masquerade.pages.report import report_page
from masquerade.pages.signature import signature_page

__all__ = ["report_page", "require_jinja", "signature_page"]
