"""Tables and figures of the page, one module for each module of runs."""
