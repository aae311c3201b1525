"""The parts from which more than one protocol is built."""
