"""The conversations: one module per protocol, all its roles side by side."""
