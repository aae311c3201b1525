"""Empirical lower bounds on epsilon: what an adversary who looks at thousands of runs can really tell."""

from masquerade.audit.audit import Audit, Finding, Gate
from masquerade.audit.catalogue import audits, error_of, run

__all__ = ["Audit", "Finding", "Gate", "audits", "error_of", "run"]
