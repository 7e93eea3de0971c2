"""The experiments: each module registers runs that return rows."""
