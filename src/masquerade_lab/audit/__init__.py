"""Empirical lower bounds on epsilon: what an adversary who looks at thousands of runs can really tell."""

from masquerade_lab.audit.audit import Audit, Finding, Gate
from masquerade_lab.audit.catalogue import audits, error_of, run

__all__ = ["Audit", "Finding", "Gate", "audits", "error_of", "run"]
