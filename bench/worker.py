"""A process of its own for a benchmark: ``python -m bench.worker MODULE:FUNCTION ARGUMENTS`` prints JSON."""

import importlib
import json
import sys

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("A benchmark starts this with a function and its arguments: python -m bench.worker memory:bare []")
    module, _, function = sys.argv[1].partition(":")
    print(json.dumps(getattr(importlib.import_module(f"bench.{module}"), function)(*json.loads(sys.argv[2]))))
