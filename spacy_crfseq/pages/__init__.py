"""Self-contained pages, each one HTML file: their frame, their tables, and charts as SVG."""
