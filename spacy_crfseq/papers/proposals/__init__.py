"""Features that would lower the loss most: `propose-features`."""
