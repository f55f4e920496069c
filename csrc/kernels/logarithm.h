/* The natural logarithm. Constants: logarithm_tables.h, made by fit/logarithm.py. */
#include "kernels/logarithm_tables.h"

/* log x, x = m 2^k with 3/4 <= m < 3/2. By the top five bits of m: c ~ 1/m, T = -log c, both from tables,
 * r = m c - 1, and log x = (k ln2hi + T) + (r + k ln2lo + r^2 q(r)). T and ln2hi are multiples of 2^-16, so the first bracket
 * is exact; around x = 1, in [15/16, 35/32), c = 1, T = 0 and r is exact. 0 and infinity come out of k = -+infinity.
 * Error: 0.776 ulp; monotone. */
UNARY(log) {
    UNUSED_ATTRIBUTES;
    vf k, m = vf_split(x, &k);
    vi slot = vi_shift_right(vi_bits(m), 18);
    vf r = vf_fma(m, vf_entry_32(log_c, slot), vf_set(-1.0f));
    vf q = vf_fma(r, vf_set(LOG_Q4), vf_set(LOG_Q3));
    q = vf_fma(r, q, vf_set(LOG_Q2));
    q = vf_fma(r, q, vf_set(LOG_Q1));
    q = vf_fma(r, q, vf_set(LOG_Q0));
    vf small = vf_fma(vf_mul(r, r), q, vf_fma(k, vf_set(LOG_LN2LO), r));
    vf y = vf_add(vf_fma(k, vf_set(LOG_LN2HI), vf_entry_32(log_t, slot)), small);
    return vf_pick(vf_ge(x, vf_set(0.0f)), y, vf_from_bits(0x7fc00000u));
}
