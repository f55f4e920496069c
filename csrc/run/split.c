#include "run/split.h"

/* Waking a sleeping thread takes about 50 us, one that still spins about 5 us. The caller computes meanwhile, so what a
 * split can lose is the call that wakes and a wait at the end, 10 to 25 us, and what it can win is half of the time or
 * more. Hence a tensor is cut from 40 to 100 us of work on, at the speed of the widest kernels on data in the cache:
 *
 *                   ns per element   shortest   its time
 *   memory          0.06 to 0.08     524,288    about 35 us (170 us where the data comes from memory)
 *   light           0.1 to 0.2       524,288    50 to 100 us
 *   transcendental  0.13 to 0.3      262,144    35 to 80 us
 *   composite       0.3 to 0.9       131,072    40 to 120 us
 *
 * Measured on one AVX-512 machine of two shared cores, with pauses of 3 ms between the runs: in a tight loop the other
 * threads never sleep, and half of these lengths break even. A piece is a microsecond or more, against about 0.1 us to
 * claim it. */
static const struct {
    size_t shortest, piece; /* elements: of a tensor that is cut, of a piece */
} limits[] = {
    [OW_COST_MEMORY] = {524288, 16384},
    [OW_COST_LIGHT] = {524288, 8192},
    [OW_COST_TRANSCENDENTAL] = {262144, 4096},
    [OW_COST_COMPOSITE] = {131072, 4096},
};

/* The least common multiple of a row and the alignment; 0 when it overflows or there is no row. */
static size_t piece_unit(size_t row_width) {
    size_t shared = row_width & -row_width, unit; /* the power of two in it */
    if (shared > OW_PIECE_ALIGNMENT)
        shared = OW_PIECE_ALIGNMENT;
    return shared && !__builtin_mul_overflow(row_width, OW_PIECE_ALIGNMENT / shared, &unit) ? unit : 0;
}

size_t ow_piece_length(size_t length, ow_cost cost, size_t row_width) {
    if (length < limits[cost].shortest)
        return length;
    size_t unit = piece_unit(row_width), piece = (length - 1) / OW_MAX_PIECES + 1;
    if (!unit)
        return length;
    if (piece < limits[cost].piece)
        piece = limits[cost].piece;
    size_t units = (piece - 1) / unit + 1;
    return __builtin_mul_overflow(units, unit, &piece) || piece > length ? length : piece;
}
