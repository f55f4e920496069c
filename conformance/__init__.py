"""The `ortwin` command, and the checks that hold the C library and the execution provider against the reference."""
