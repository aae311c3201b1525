"""How much noise a study needs: from a privacy target to the scale that a participant draws with."""
