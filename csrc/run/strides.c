/* What shape and strides say of a tensor's memory. No allocation, and no product that could overflow unnoticed. */
#include "ortwin.h"

static int is_empty(const int64_t *dims, size_t rank) {
    for (size_t k = 0; k < rank; k++)
        if (dims[k] == 0)
            return 1;
    return 0;
}

static int is_valid(const int64_t *dims, const int64_t *strides, size_t rank) {
    if (rank && (!dims || !strides))
        return 0;
    for (size_t k = 0; k < rank; k++)
        if (dims[k] < 0)
            return 0;
    return 1;
}

/* The distance, whatever the direction; also of INT64_MIN. */
static uint64_t magnitude(int64_t stride) { return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride; }

int ortwin_is_contiguous(const int64_t *dims, const int64_t *strides, size_t rank) {
    if (!is_valid(dims, strides, rank))
        return 0;
    if (is_empty(dims, rank))
        return 1;
    uint64_t expected = 1;
    int beyond = 0; /* of any stride */
    for (size_t k = rank; k-- > 0;) {
        if (dims[k] == 1)
            continue;
        if (beyond || strides[k] < 0 || (uint64_t)strides[k] != expected)
            return 0;
        beyond = __builtin_mul_overflow(expected, (uint64_t)dims[k], &expected);
    }
    return 1;
}

/* The elements lie without gap and without overlap exactly if one axis moves by 1, and each further axis, in some order,
 * by what those before it span: the smallest step must be 1, and the first place that the axes so far do not reach can
 * only be the next axis' first step. What is spanned only grows, so no axis counts twice. */
int ortwin_is_dense(const int64_t *dims, const int64_t *strides, size_t rank) {
    if (!is_valid(dims, strides, rank))
        return 0;
    if (is_empty(dims, rank))
        return 1;
    size_t wanted = 0, found = 0;
    for (size_t k = 0; k < rank; k++)
        wanted += dims[k] != 1;
    uint64_t spanned = 1;
    int beyond = 0;
    while (found < wanted) {
        size_t k = 0;
        while (k < rank && (dims[k] == 1 || magnitude(strides[k]) != spanned))
            k++;
        if (beyond || k == rank)
            return 0;
        beyond = __builtin_mul_overflow(spanned, (uint64_t)dims[k], &spanned);
        found++;
    }
    return 1;
}
