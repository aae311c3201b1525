"""Records: the encoder that follows from the study, and loading."""

from masquerade_core.data.loading import load_csv, load_grouped, load_records
from masquerade_core.data.schema import Dataset, Encoder

__all__ = ["Dataset", "Encoder", "load_csv", "load_grouped", "load_records"]
