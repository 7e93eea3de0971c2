"""What a corpus holds, what is wrong with it, and what training on it costs: `debug-data`."""
