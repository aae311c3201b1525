"""Records: files, encodings, and what a study asks of them."""
