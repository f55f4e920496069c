"""Speed as ratios: arms in one process, pinned, interleaved, with a null band and the reasons to refuse a ratio.

cells makes the models, arms the sessions (and refuses those that would not measure what they say), timing the samples,
statistics the ratios, report tables and JSON, command the `ortwin bench` command, regress compares two commits.
"""
