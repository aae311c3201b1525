"""The papers' experiments run again, beside what an honest implementation must reach and a broken one cannot."""

from masquerade.reproduce.bands import Report, Row
from masquerade.reproduce.papers import PAPERS, Figure, reproduce

__all__ = ["PAPERS", "Figure", "Report", "Row", "reproduce"]
