"""Sums over the shards of a training set on a Dask cluster."""
