"""The command line: `program` has all commands, `app` their group, `options`, `inputs` and `console` their tools."""
