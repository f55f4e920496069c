/* Signatures: what a plan knows of its values once it has seen the shapes of its inputs, and the cache that keeps them.
 *
 * Published without locks: a place in the cache is either looked at by any number of threads or changed by one, which
 * none of them waits for. A signature lives until its last reference is dropped, so evicting one that is in use is
 * safe, and of the evicted only as many live on as there are frames. */
#include "run/parts.h"

#include "run/split.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 16384 }; /* per value: a few of them fit in the first-level cache (32 KiB and more) */

/* ---- computing ---- */

void ow_operands(const ortwin_plan *plan, const ow_node *node, const ow_value *values,
                 ortwin_operand operands[OW_MAX_INPUTS]) {
    for (size_t k = 0; k < OW_MAX_INPUTS; k++) {
        operands[k] = (ortwin_operand){0, -1, NULL};
        if (k >= node->input_count || node->inputs[k] < 0)
            continue;
        const ow_value *v = &values[node->inputs[k]];
        operands[k] = (ortwin_operand){plan->slots[node->inputs[k]].known.dtype, (int32_t)v->rank, v->dims};
    }
}

/* Clip's bounds, when they are operands: rank 0 is a rule of the ONNX text that may first be seen here. */
static ortwin_status check_bounds(const ow_node *n, const ortwin_operand *operands, ortwin_error *error) {
    for (size_t k = 1; k < n->input_count && n->resolved.kernel == OW_KERNEL_clip; k++)
        if (operands[k].rank > 0)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "%s: the %s has rank %d, the rule is rank 0", n->label,
                           k == 1 ? "min" : "max", (int)operands[k].rank);
    return ORTWIN_OK;
}

static ortwin_status shape_of_node(const ortwin_plan *plan, const ow_node *n, ow_value *values, int64_t *dims,
                                   ortwin_error *error) {
    ortwin_operand operands[OW_MAX_INPUTS];
    ortwin_error rule;
    ow_operands(plan, n, values, operands);
    ow_value *y = &values[n->output];
    ortwin_status status = check_bounds(n, operands, error);
    if (status)
        return status;
    status = ow_output_shape(&n->resolved, operands, dims, &rule);
    if (status)
        return ow_fail(error, status, "%s: %s", n->label, rule.text);
    *y = (ow_value){dims, (size_t)ow_output_rank(&n->resolved, operands), 0, 0};
    if (!ow_tensor_size(plan->slots[n->output].known.dtype, y->rank, dims, &y->count, &y->bytes))
        return ow_fail(error, ORTWIN_OVERFLOW, "%s: the size of its output does not fit in memory", n->label);
    return ORTWIN_OK;
}

/* How an operand moves for one element of the output: 1 in step with it, 0 not at all, 2 as a walk says. */
static size_t pace(const ow_axis *axes, size_t count, int operand) {
    size_t expected = 1, k = count;
    if (count == 1)
        return axes[0].step[operand];
    for (; k > 0 && axes[k - 1].step[operand] == expected; k--)
        expected *= axes[k - 1].size;
    return k ? 2 : 1;
}

void ow_make_step(const ortwin_plan *plan, const ow_node *node, const ow_value *values, ow_axis *axes, ow_step *step) {
    const ow_resolved *r = &node->resolved;
    const ow_value *y = &values[node->output];
    size_t item = ow_item_size(r->dtype);
    uint32_t x = (uint32_t)node->inputs[0], b = node->input_count > 1 ? (uint32_t)node->inputs[1] : 0;
    memset(step, 0, sizeof *step);
    step->node = node;
    step->item = item;
    step->params = &r->params;
    step->width = 1;
    step->x = (ow_place){x, (uint32_t)item, 0};
    step->y = (ow_place){(uint32_t)node->output, (uint32_t)item, 0};
    if (r->op->shape == OW_SHAPE_WHOLE) { /* no operand moves along with the output */
        size_t whole = ow_item_size(r->output);
        step->kind = STEP_WHOLE;
        step->item = whole ? whole : 1;
        step->x.item = step->y.item = 0;
        return;
    }
    step->unary = plan->isa->kernels->unary[r->kernel][r->dtype];
    step->binary = plan->isa->kernels->binary[r->kernel][r->dtype];
    step->kind = r->kernel == OW_KERNEL_copy ? STEP_COPY : STEP_UNARY;
    if (r->kernel == OW_KERNEL_clip && r->op->max_inputs > 1)
        step->kind = STEP_BOUNDED;
    if (ow_takes_bias(r->op) && node->input_count > 1 && node->inputs[1] >= 0) {
        step->kind = STEP_BIASED;
        step->biased = plan->isa->kernels->biased[r->kernel][r->dtype];
        step->width = values[b].count;
        step->b_step = y->count == step->width;
        step->b = (ow_place){b, step->b_step ? (uint32_t)item : 0, 0};
    }
    if (!step->binary)
        return;
    ortwin_operand operands[OW_MAX_INPUTS];
    ow_operands(plan, node, values, operands);
    size_t count = y->count ? ow_walk(r, operands, y->rank, y->dims, axes) : 0;
    step->kind = count > 1 ? STEP_WALKED : STEP_PAIRED;
    step->axes = axes;
    step->axis_count = count;
    step->x_step = pace(axes, count, 0);
    step->b_step = pace(axes, count, 1);
    step->x.item = step->x_step == 1 ? (uint32_t)item : 0;
    step->b = (ow_place){b, step->b_step == 1 ? (uint32_t)item : 0, 0};
}

static int same_shape(const ow_value *a, const ow_value *b) {
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

static size_t common_multiple(size_t m, size_t n) {
    size_t a = m, b = n, product;
    while (b) {
        size_t rest = a % b;
        a = b, b = rest;
    }
    return a && !__builtin_mul_overflow(m / a, n, &product) ? product : 0;
}

/* Where several threads would cut a segment's elementwise steps: by the dearest, and into whole rows of all that have
 * rows. */
static size_t find_cut(const ow_signature *made, const ow_segment *s) {
    ow_cost cost = OW_COST_MEMORY;
    size_t width = 1;
    size_t first = s->first + (size_t)ow_begins_whole(made, s);
    if (first == s->end)
        return s->count;
    for (size_t k = first; k < s->end; k++) {
        const ow_step *step = &made->steps[k];
        cost = step->node->resolved.op->cost > cost ? step->node->resolved.op->cost : cost;
        width = common_multiple(width, step->width);
    }
    return ow_piece_length(s->count, cost, width);
}

/* Whether a step executed as a whole lets others follow it through its tiles. */
static int is_followed(const ow_step *step) {
    return step->kind != STEP_WHOLE || step->node->resolved.op->cost == OW_COST_PRODUCT;
}

/* Joins steps whose outputs have one shape. */
static void make_segments(const ortwin_plan *plan, ow_signature *made) {
    for (size_t k = 0; k < plan->node_count; k++) {
        const ow_value *y = &made->values[plan->nodes[k].output];
        ow_segment *last = made->segment_count ? &made->segments[made->segment_count - 1] : NULL;
        if (!last || made->steps[k].kind == STEP_WHOLE || !is_followed(&made->steps[last->first]) ||
            !same_shape(&made->values[plan->nodes[last->first].output], y)) {
            last = &made->segments[made->segment_count++];
            *last = (ow_segment){k, k, y->count, y->count, y->count};
        }
        last->end = k + 1;
    }
    for (size_t k = 0; k < made->segment_count; k++) {
        ow_segment *s = &made->segments[k];
        size_t widest = 1;
        for (size_t step = s->first; step < s->end; step++)
            widest = made->steps[step].item > widest ? made->steps[step].item : widest;
        if (s->end - s->first > 1 && s->count > PIECE_BYTES / widest)
            s->piece = PIECE_BYTES / widest;
        if (plan->threads != 1)
            s->cut = find_cut(made, s);
        if (s->piece > s->cut)
            s->piece = s->cut;
    }
}

/* Ranks come first, so that all dimensions find room in one block. */
static size_t count_dims(const ortwin_plan *plan, const ortwin_tensor *inputs, ow_value *values) {
    size_t total = 0;
    for (size_t s = 0; s < plan->slot_count; s++) {
        const ow_slot *slot = &plan->slots[s];
        values[s].rank = slot->from == FROM_INPUT ? inputs[slot->input].rank : slot->constant.rank;
        total += slot->from == FROM_INPUT ? values[s].rank : 0;
    }
    for (size_t k = 0; k < plan->node_count; k++) {
        const ow_node *n = &plan->nodes[k];
        ortwin_operand operands[OW_MAX_INPUTS];
        ow_operands(plan, n, values, operands);
        int32_t rank = ow_output_rank(&n->resolved, operands);
        values[n->output].rank = rank < 0 ? 0 : (size_t)rank; /* none: a rank breaks a rule, and fill ends here */
        total += 2 * values[n->output].rank;                  /* its dimensions, and the axes of a walk */
    }
    return total;
}

static ortwin_status fill(const ortwin_plan *plan, const ortwin_tensor *inputs, ow_signature *made, int64_t *dims,
                          ow_axis *axes, ortwin_error *error) {
    for (size_t s = 0; s < plan->slot_count; s++) {
        const ow_slot *slot = &plan->slots[s];
        const ortwin_tensor *t = slot->from == FROM_INPUT ? &inputs[slot->input] : &slot->constant;
        if (slot->from == FROM_NODE)
            continue;
        made->values[s] = (ow_value){t->dims, t->rank, 0, 0};
        ow_tensor_size(slot->known.dtype, t->rank, t->dims, &made->values[s].count, &made->values[s].bytes);
        if (slot->from == FROM_INPUT) {
            if (t->rank)
                memcpy(dims, t->dims, t->rank * sizeof *dims);
            made->values[s].dims = dims;
            dims += t->rank;
        }
    }
    for (size_t k = 0; k < plan->node_count; k++) {
        const ow_node *n = &plan->nodes[k];
        ortwin_status status = shape_of_node(plan, n, made->values, dims, error);
        if (status)
            return status;
        dims += made->values[n->output].rank;
        ow_make_step(plan, n, made->values, axes, &made->steps[k]);
        axes += made->values[n->output].rank;
    }
    make_segments(plan, made);
    return ORTWIN_OK;
}

static ortwin_status compute(const ortwin_plan *plan, const ortwin_tensor *inputs, ow_tally *tally,
                             ow_signature **computed, ortwin_error *error) {
    ow_signature *made = ow_alloc(tally, OW_allocations_run, 1, sizeof *made);
    if (!made)
        return ow_no_memory(error);
    atomic_init(&made->references, 1);
    made->values = ow_alloc(tally, OW_allocations_run, plan->slot_count, sizeof *made->values);
    made->offsets = ow_alloc(tally, OW_allocations_run, plan->slot_count, sizeof *made->offsets);
    made->segments = ow_alloc(tally, OW_allocations_run, plan->node_count, sizeof *made->segments);
    ortwin_status status = ORTWIN_OK;
    if (!made->values || !made->offsets || !made->segments)
        status = ow_no_memory(error);
    if (!status) { /* steps, then axes, then dimensions */
        size_t room = count_dims(plan, inputs, made->values);
        size_t bytes = plan->node_count * sizeof *made->steps + room * (sizeof(ow_axis) + sizeof(int64_t));
        made->steps = ow_alloc(tally, OW_allocations_run, bytes, 1);
        if (!made->steps)
            status = ow_no_memory(error);
        else {
            ow_axis *axes = (ow_axis *)(void *)(made->steps + plan->node_count);
            status = fill(plan, inputs, made, (int64_t *)(void *)(axes + room), axes, error);
        }
    }
    if (!status)
        status = ow_plan_arena(plan, made, tally, error);
    if (status)
        ow_drop_signature(made);
    else {
        ow_count(tally, OW_signatures_computed, 1);
        *computed = made;
    }
    return status;
}

void ow_drop_signature(ow_signature *signature) {
    if (!signature || atomic_fetch_sub_explicit(&signature->references, 1, memory_order_acq_rel) != 1)
        return;
    free(signature->values);
    free(signature->offsets);
    free(signature->segments);
    free(signature->steps);
    free(signature);
}

/* ---- the cache ---- */

int ow_matches(const ortwin_plan *plan, const ow_signature *signature, const ortwin_tensor *inputs) {
    for (size_t k = 0; k < plan->input_count; k++) {
        const ow_slot *slot = &plan->slots[plan->inputs[k]];
        const ow_value *value = &signature->values[plan->inputs[k]];
        const ortwin_tensor *t = &inputs[k];
        if (t->dtype != slot->known.dtype || t->rank != value->rank || t->bytes != value->bytes ||
            (t->bytes && !t->data) || (t->rank && !t->dims))
            return 0;
        for (size_t axis = 0; axis < t->rank; axis++)
            if (t->dims[axis] != value->dims[axis])
                return 0;
    }
    return 1;
}

#define OW_CHANGING UINT_MAX /* state of a place whose signature is being exchanged */

/* Keeps the place from changing; false if it is changing. */
static int hold(ow_cached *place) {
    unsigned state = atomic_load_explicit(&place->state, memory_order_relaxed);
    while (state < OW_CHANGING - 1)
        if (atomic_compare_exchange_weak_explicit(&place->state, &state, state + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return 1;
    return 0;
}

static ow_signature *look_up(ortwin_plan *plan, const ortwin_tensor *inputs) {
    ow_signature *found = NULL;
    for (size_t k = 0; k < OW_SIGNATURES && !found; k++) {
        ow_cached *place = &plan->cache[k];
        if (!hold(place))
            continue;
        if (place->signature && ow_matches(plan, place->signature, inputs)) {
            found = place->signature;
            atomic_fetch_add_explicit(&found->references, 1, memory_order_relaxed);
        }
        atomic_fetch_sub_explicit(&place->state, 1, memory_order_release);
    }
    return found;
}

/* Puts the signature in the place whose turn it is, or the next that nobody is looking at; if there is none it stays
 * its caller's alone. */
static void publish(ortwin_plan *plan, ow_signature *signature, ow_tally *tally) {
    unsigned turn = atomic_fetch_add_explicit(&plan->turn, 1, memory_order_relaxed);
    for (unsigned k = 0; k < OW_SIGNATURES; k++) {
        ow_cached *place = &plan->cache[(turn + k) % OW_SIGNATURES];
        unsigned idle = 0;
        if (!atomic_compare_exchange_strong_explicit(&place->state, &idle, OW_CHANGING, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        ow_signature *old = place->signature;
        atomic_fetch_add_explicit(&signature->references, 1, memory_order_relaxed);
        place->signature = signature;
        atomic_store_explicit(&place->state, 0, memory_order_release);
        ow_count(tally, OW_signatures_evicted, old != NULL);
        ow_drop_signature(old);
        return;
    }
}

ortwin_status ow_find_signature(const ortwin_plan *sealed, const ortwin_tensor *inputs, ow_tally *tally,
                                ow_signature **found, ortwin_error *error) {
    ortwin_plan *plan = (ortwin_plan *)(uintptr_t)sealed; /* its cache changes, by atomic steps */
    *found = look_up(plan, inputs);
    if (*found) {
        ow_count(tally, OW_signatures_reused, 1);
        return ORTWIN_OK;
    }
    ortwin_status status = compute(plan, inputs, tally, found, error);
    if (status)
        return status;
    ow_signature *theirs = look_up(plan, inputs); /* another thread may have been as fast */
    if (theirs) {
        ow_drop_signature(*found);
        *found = theirs;
    } else
        publish(plan, *found, tally);
    return ORTWIN_OK;
}

void ow_free_cache(ortwin_plan *plan) {
    for (size_t k = 0; k < OW_SIGNATURES; k++)
        ow_drop_signature(plan->cache[k].signature);
}
