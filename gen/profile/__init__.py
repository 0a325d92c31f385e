"""Where the time and the memory of a compiled function go: measured in a build of its own."""
