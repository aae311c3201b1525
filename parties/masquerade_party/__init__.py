"""The process that a data owner (a *party*) runs."""

from masquerade_party._approve import Approved, approve
from masquerade_party._run import run

__all__ = ["Approved", "approve", "run"]
