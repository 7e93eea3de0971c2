"""Pages that are one file and ask nothing of the net: their frame, their tables, and charts as SVG."""
