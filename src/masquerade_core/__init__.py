"""Mathematics, data and bytes: everything that needs no network, no files of its own and no protocol."""

__all__ = ["__version__"]

__version__ = "0.1.0"
