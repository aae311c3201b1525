"""The conversations: one module per protocol, all its roles side by side."""

from masquerade_protocols.registry import PROTOCOLS, Explanation, Protocol, protocol_of, section_of

__all__ = ["PROTOCOLS", "Explanation", "Protocol", "protocol_of", "section_of"]
