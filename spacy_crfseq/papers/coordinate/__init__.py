"""Coordinate descent of Sokolovska (2010): an optimizer with sparse recursions."""
