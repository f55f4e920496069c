"""Sweeps over all 2^32 inputs of a float32 function, the certificates they end in, and their verification."""
