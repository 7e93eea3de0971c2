"""The weights behind a label: `explain`."""
