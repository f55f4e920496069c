"""Tables of Log. Made by csrc/kernels/fit/logarithm.py."""

from __future__ import annotations

from typing import Final

from ortwin.ref.table import table

LOG_LN2HI: Final = float.fromhex("0x1.62e4p-1")  # floor(2^16 ln 2) / 2^16
LOG_LN2LO: Final = float.fromhex("0x1.7f7d1cp-20")  # ln 2 - LOG_LN2HI
LOG_Q0: Final = float.fromhex("-0x1.fffffcp-2")
LOG_Q1: Final = float.fromhex("0x1.555512p-2")
LOG_Q2: Final = float.fromhex("-0x1.001026p-2")
LOG_Q3: Final = float.fromhex("0x1.9b2866p-3")
LOG_Q4: Final = float.fromhex("-0x1.3d9bfp-3")
# about 1 / m
LOG_C: Final = table(
    """
    0x1p+0 0x1p+0 0x1p+0 0x1.cd6956p-1
    0x1.c0bb9ap-1 0x1.b5091ep-1 0x1.a98f14p-1 0x1.9e8de8p-1
    0x1.94d24ap-1 0x1.8a9b1ep-1 0x1.818612p-1 0x1.788a96p-1
    0x1.701f3ap-1 0x1.68533p-1 0x1.607bb6p-1 0x1.59072ap-1
    0x1.51a31ep+0 0x1.4adfd6p+0 0x1.4488bap+0 0x1.3e23f8p+0
    0x1.383738p+0 0x1.3204a2p+0 0x1.2c7288p+0 0x1.275452p+0
    0x1.2225e2p+0 0x1.1cc66p+0 0x1.183b48p+0 0x1.1352cep+0
    0x1p+0 0x1p+0 0x1p+0 0x1p+0
    """
)
# -log LOG_C
LOG_T: Final = table(
    """
    0.0 0.0 0.0 0x1.aa2p-4
    0x1.0e2p-3 0x1.4438p-3 0x1.7ab8p-3 0x1.b06p-3
    0x1.e108p-3 0x1.0abp-2 0x1.2288p-2 0x1.3aacp-2
    0x1.51d4p-2 0x1.67cp-2 0x1.7e48p-2 0x1.942cp-2
    -0x1.1b7p-2 -0x1.06b8p-2 -0x1.e5dp-3 -0x1.bd1p-3
    -0x1.969p-3 -0x1.6d8p-3 -0x1.47ep-3 -0x1.24bp-3
    -0x1.007p-3 -0x1.b45p-4 -0x1.727p-4 -0x1.2a1p-4
    0.0 0.0 0.0 0.0
    """
)
