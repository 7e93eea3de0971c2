"""All combinations of some settings: `sweep`."""
