"""Records: the encoder that follows from the study, and loading."""
