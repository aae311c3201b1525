"""The papers' experiments run again, beside what an honest implementation must reach and a broken one cannot."""

from masquerade_lab.reproduce.bands import Report, Row
from masquerade_lab.reproduce.papers import PAPERS, Figure, reproduce

__all__ = ["PAPERS", "Figure", "Report", "Row", "reproduce"]
