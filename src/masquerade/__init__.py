"""The face: command line, estimators, simulation and report."""
