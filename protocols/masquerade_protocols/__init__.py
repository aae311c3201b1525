"""The conversations: one module per protocol, all its roles side by side."""

from masquerade_protocols.baselines import BASELINES, Baseline, baseline_of
from masquerade_protocols.protocol import Explanation, Protocol
from masquerade_protocols.registry import PROTOCOLS, protocol_of, section_of, statement_of

__all__ = [
    "BASELINES",
    "PROTOCOLS",
    "Baseline",
    "Explanation",
    "Protocol",
    "baseline_of",
    "protocol_of",
    "section_of",
    "statement_of",
]
