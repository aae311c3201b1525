"""The process that a data owner (a *party*) runs."""

from masquerade_party._approval import Approve, ask, no_questions
from masquerade_party._run import run

__all__ = ["Approve", "ask", "no_questions", "run"]
