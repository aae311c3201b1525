"""Mathematics, data and bytes; knows no role and no socket."""

__all__ = ["__version__"]

__version__ = "0.1.0"
