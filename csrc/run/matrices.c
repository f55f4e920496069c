#include "run/matrices.h"

ow_matrices ow_matrices_of(const ortwin_tensor *t, int is_left) {
    ow_matrices m = {1, 1, t->rank > 2 ? t->rank - 2 : 0, t->dims};
    if (t->rank == 1)
        *(is_left ? &m.columns : &m.rows) = (size_t)t->dims[0];
    else
        m.rows = (size_t)t->dims[t->rank - 2], m.columns = (size_t)t->dims[t->rank - 1];
    return m;
}

size_t ow_matrix_count(const ow_matrices *operand) {
    size_t count = 1;
    for (size_t k = 0; k < operand->rank; k++)
        count *= (size_t)operand->dims[k];
    return count;
}

size_t ow_matrix_at(const ow_matrices *operand, const int64_t *dims, size_t rank, size_t index) {
    size_t found = 0, step = 1;
    for (size_t k = 0; k < rank; k++) { /* batch dimensions stand at the right */
        size_t size = (size_t)dims[rank - 1 - k], at = index % size;
        index /= size;
        if (k < operand->rank) {
            size_t own = (size_t)operand->dims[operand->rank - 1 - k];
            found += own == 1 ? 0 : at * step;
            step *= own;
        }
    }
    return found;
}
