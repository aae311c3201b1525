"""A site that serves many studies: ``masquerade site`` watches a folder, and runs what its people have approved."""
