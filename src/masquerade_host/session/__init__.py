"""Sessions: one end of a run, from the hello to the closing digests."""
