"""The conversations: one folder for each protocol, with all its roles side by side."""

from masquerade_protocols.entry import Cost, Explanation, Noiseless, Protocol, Released, WeightNoise
from masquerade_protocols.registry import (
    BASELINES,
    DEFAULT_PROTOCOL,
    MEASUREMENTS,
    PROTOCOLS,
    entry_named,
    entry_of,
    plugin_of,
    protocol_of,
    register,
    statement_of,
    theorems_of,
)

__all__ = [
    "BASELINES",
    "DEFAULT_PROTOCOL",
    "MEASUREMENTS",
    "PROTOCOLS",
    "Cost",
    "Explanation",
    "Noiseless",
    "Protocol",
    "Released",
    "WeightNoise",
    "entry_named",
    "entry_of",
    "plugin_of",
    "protocol_of",
    "register",
    "statement_of",
    "theorems_of",
]
