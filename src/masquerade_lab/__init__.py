"""The laboratory: what studies protocols and takes part in no run."""
