"""The command line: `program` has all commands, `app` the group that they join, `options` and `console` their tools."""
