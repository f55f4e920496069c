/* A plan under construction. Once sealed it does not change. */
#include "run/parts.h"

#include "run/fpstate.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ortwin_status ow_no_memory(ortwin_error *error) { return ow_fail(error, ORTWIN_OUT_OF_MEMORY, "out of memory"); }

static void *grown(ortwin_plan *plan, void *array, size_t count, size_t *room, size_t size) {
    return ow_grown(&plan->tally, OW_allocations_build, array, count, room, size);
}

static void *alloc(ortwin_plan *plan, size_t count, size_t size) {
    return ow_alloc(&plan->tally, OW_allocations_build, count, size);
}

ortwin_status ow_check_tensor(const ortwin_tensor *t, const char *what, size_t index, ortwin_error *error) {
    if (!ow_is_held(t->dtype))
        return ow_fail(error, ORTWIN_BAD_DTYPE, "%s %zu: %s has no fixed element size", what, index,
                       ow_dtype_name(t->dtype));
    if (t->rank && !t->dims)
        return ow_fail(error, ORTWIN_NULL_POINTER, "%s %zu: dims are NULL at rank %zu", what, index, t->rank);
    for (size_t k = 0; k < t->rank; k++)
        if (t->dims[k] < 0)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "%s %zu: dimension %zu is negative", what, index, k);
    size_t count, bytes;
    if (!ow_tensor_size(t->dtype, t->rank, t->dims, &count, &bytes))
        return ow_fail(error, ORTWIN_OVERFLOW, "%s %zu: its size does not fit in memory", what, index);
    if (t->bytes != bytes)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "%s %zu: the buffer has %zu bytes, its shape %zu", what, index,
                       t->bytes, bytes);
    if (bytes && !t->data)
        return ow_fail(error, ORTWIN_NULL_POINTER, "%s %zu: data is NULL", what, index);
    return ORTWIN_OK;
}

ortwin_status ortwin_plan_new(const char *isa, int32_t threads, ortwin_plan **plan, ortwin_error *error) {
    if (!plan)
        return ow_fail(error, ORTWIN_NULL_POINTER, "plan is NULL");
    *plan = NULL;
    if (threads < 0 || threads > ORTWIN_MAX_THREADS)
        return ow_fail(error, ORTWIN_MISUSE, "threads must be 0 to %d, not %d", ORTWIN_MAX_THREADS, (int)threads);
    const ow_isa *chosen;
    ortwin_status status = ow_choose_isa(isa, &chosen, error);
    if (!status)
        status = ow_pack_environment(error);
    if (status)
        return status;
    ortwin_plan *made = calloc(1, sizeof *made);
    if (!made)
        return ow_no_memory(error);
    ow_tally_open(&made->tally, 0);
    ow_count(&made->tally, OW_allocations_build, 1);
    made->isa = chosen;
    made->trace = ow_trace_new("a plan");
    made->own_trace = 1;
    made->threads = threads;
    *plan = made;
    return ORTWIN_OK;
}

void ortwin_pack_bytes(uint64_t bytes) { ow_pack_budget(bytes); }

ortwin_status ortwin_plan_nbits_level(ortwin_plan *plan, int32_t level, ortwin_error *error) {
    if (!plan)
        return ow_fail(error, ORTWIN_NULL_POINTER, "plan is NULL");
    if (level < 0 || level > 4)
        return ow_fail(error, ORTWIN_MISUSE, "nbits_level must be 0 to 4, not %d", (int)level);
    plan->nbits_exact = level < 4;
    return ORTWIN_OK;
}

void ortwin_plan_free(ortwin_plan *plan) {
    if (!plan)
        return;
    for (size_t k = 0; k < plan->slot_count; k++) {
        free((void *)(uintptr_t)plan->slots[k].known.dims);
        free(plan->slots[k].constant.data);
    }
    for (size_t k = 0; k < plan->node_count; k++) {
        free(plan->nodes[k].label);
        ow_pack_give(plan->nodes[k].pack, &plan->tally);
    }
    ow_free_frames(plan);
    ow_free_cache(plan);
    ow_tally_close(&plan->tally);
    if (plan->own_trace)
        ow_trace_end(plan->trace);
    free(plan->slots);
    free(plan->nodes);
    free(plan->inputs);
    free(plan->outputs);
    free(plan);
}

static ortwin_status check_open(const ortwin_plan *plan, const void *argument, ortwin_error *error) {
    if (!plan || !argument)
        return ow_fail(error, ORTWIN_NULL_POINTER, "%s is NULL", plan ? "an argument" : "plan");
    if (plan->sealed)
        return ow_fail(error, ORTWIN_MISUSE, "the plan is sealed");
    return ORTWIN_OK;
}

static ortwin_status check_slot(const ortwin_plan *plan, int32_t index, ortwin_error *error) {
    if (index < 0 || (size_t)index >= plan->slot_count)
        return ow_fail(error, ORTWIN_MISUSE, "slot %d does not exist", (int)index);
    return ORTWIN_OK;
}

/* A new slot that owns a copy of what is known. */
static ortwin_status add_slot(ortwin_plan *plan, const ortwin_operand *known, ow_slot **made, int32_t *index,
                              ortwin_error *error) {
    if (known->rank > 0 && !known->dims)
        return ow_fail(error, ORTWIN_NULL_POINTER, "dims are NULL at rank %d", (int)known->rank);
    if (plan->slot_count >= INT32_MAX)
        return ow_fail(error, ORTWIN_OVERFLOW, "a plan holds at most 2^31-1 values");
    ow_slot *slots = grown(plan, plan->slots, plan->slot_count, &plan->slot_room, sizeof *slots);
    if (!slots)
        return ow_no_memory(error);
    plan->slots = slots;
    int64_t *dims = NULL;
    if (known->rank > 0) {
        dims = alloc(plan, (size_t)known->rank, sizeof *dims);
        if (!dims)
            return ow_no_memory(error);
        memcpy(dims, known->dims, (size_t)known->rank * sizeof *dims);
    }
    ow_slot *fresh = &slots[plan->slot_count];
    memset(fresh, 0, sizeof *fresh);
    fresh->known = (ortwin_operand){known->dtype, known->rank < 0 ? -1 : known->rank, dims};
    fresh->output = -1;
    *made = fresh;
    *index = (int32_t)plan->slot_count++;
    return ORTWIN_OK;
}

ortwin_status ortwin_plan_input(ortwin_plan *plan, const ortwin_operand *what, int32_t *index, ortwin_error *error) {
    ortwin_status status = check_open(plan, what, error);
    if (status)
        return status;
    if (!index)
        return ow_fail(error, ORTWIN_NULL_POINTER, "slot is NULL");
    if (!ow_is_held(what->dtype))
        return ow_fail(error, ORTWIN_BAD_DTYPE, "input %zu: %s has no fixed element size", plan->input_count,
                       ow_dtype_name(what->dtype));
    int32_t *inputs = grown(plan, plan->inputs, plan->input_count, &plan->input_room, sizeof *inputs);
    if (!inputs)
        return ow_no_memory(error);
    plan->inputs = inputs;
    ow_slot *fresh;
    status = add_slot(plan, what, &fresh, index, error);
    if (status)
        return status;
    fresh->from = FROM_INPUT;
    fresh->input = plan->input_count;
    inputs[plan->input_count++] = *index;
    return ORTWIN_OK;
}

ortwin_status ortwin_plan_constant(ortwin_plan *plan, const ortwin_tensor *value, int32_t *index, ortwin_error *error) {
    ortwin_status status = check_open(plan, value, error);
    if (!status)
        status = ow_check_tensor(value, "constant", plan->slot_count, error);
    if (status)
        return status;
    if (!index)
        return ow_fail(error, ORTWIN_NULL_POINTER, "slot is NULL");
    if (value->rank > INT32_MAX)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "constant: the rank is too large");
    void *copy = alloc(plan, value->bytes, 1);
    if (!copy)
        return ow_no_memory(error);
    if (value->bytes)
        memcpy(copy, value->data, value->bytes);
    ow_slot *fresh;
    status = add_slot(plan, &(ortwin_operand){value->dtype, (int32_t)value->rank, value->dims}, &fresh, index, error);
    if (status) {
        free(copy);
        return status;
    }
    fresh->from = FROM_CONSTANT;
    fresh->constant = (ortwin_tensor){copy, fresh->known.dims, value->rank, value->bytes, value->dtype};
    return ORTWIN_OK;
}

/* "node 'clip_3' (Clip)", long names cut so that the rule fits behind it; NULL when there is no memory. */
static char *make_label(ortwin_plan *plan, const ortwin_node *what) {
    enum { SIZE = 256 };
    char *label = alloc(plan, SIZE, 1);
    if (label)
        snprintf(label, SIZE, "node '%.160s' (%.64s)", what->name ? what->name : "",
                 what->op_type ? what->op_type : "");
    return label;
}

/* Adds what computes one output of a node. */
static ortwin_status add_node(ortwin_plan *plan, const ortwin_node *what, const ow_resolved *resolved,
                              const ortwin_operand *operands, const char *label, int is_part, int32_t *output_slot,
                              ortwin_error *error) {
    ortwin_status status;
    int32_t rank = ow_output_rank(resolved, operands);
    int64_t *dims = alloc(plan, rank > 0 ? (size_t)rank : 1, sizeof *dims);
    char *own_label = alloc(plan, strlen(label) + 1, 1);
    ow_node *nodes = grown(plan, plan->nodes, plan->node_count, &plan->node_room, sizeof *nodes);
    ow_slot *fresh;
    if (nodes)
        plan->nodes = nodes;
    if (nodes && dims && own_label) {
        ow_output_shape(resolved, operands, dims, NULL); /* ow_resolve has asked whether they fit */
        status = add_slot(plan, &(ortwin_operand){resolved->output, rank, dims}, &fresh, output_slot, error);
    } else
        status = ow_no_memory(error);
    free(dims);
    if (status) {
        free(own_label);
        return status;
    }
    memcpy(own_label, label, strlen(label) + 1);
    fresh->from = FROM_NODE;
    ow_node *added = &nodes[plan->node_count++];
    *added = (ow_node){.resolved = *resolved,
                       .input_count = what->input_count,
                       .output = *output_slot,
                       .label = own_label,
                       .is_part = is_part};
    for (size_t k = 0; k < OW_MAX_INPUTS; k++)
        added->inputs[k] = k >= what->input_count || what->inputs[k] < 0 ? -1 : what->inputs[k];
    return ORTWIN_OK;
}

/* The operands of a node that are constants, NULL for others. inputs: slots, -1 for a missing one. */
static void find_constants(const ortwin_plan *plan, const int32_t *inputs, size_t count,
                           const ortwin_tensor *constants[OW_WHOLE_INPUTS]) {
    for (size_t k = 0; k < OW_WHOLE_INPUTS; k++)
        constants[k] = k < count && inputs[k] >= 0 && plan->slots[inputs[k]].from == FROM_CONSTANT
                           ? &plan->slots[inputs[k]].constant
                           : NULL;
}

/* A rule that constants break is one that shows before any Run (C9). */
static ortwin_status inspect_constants(const ortwin_plan *plan, const ortwin_node *what, const ow_resolved *resolved,
                                       ortwin_error *rule) {
    const ortwin_tensor *constants[OW_WHOLE_INPUTS];
    if (resolved->op->shape != OW_SHAPE_WHOLE)
        return ORTWIN_OK;
    find_constants(plan, what->inputs, what->input_count, constants);
    return ow_whole_inspect(&resolved->whole, constants, rule) ? ORTWIN_UNSUPPORTED : ORTWIN_OK;
}

ortwin_status ortwin_plan_node(ortwin_plan *plan, const ortwin_node *what, int32_t *output_slots, ortwin_error *error) {
    ortwin_status status = check_open(plan, what, error);
    if (status)
        return status;
    if (!output_slots || (what->input_count && !what->inputs) || (what->attr_count && !what->attrs))
        return ow_fail(error, ORTWIN_NULL_POINTER, "a list of the node is NULL");
    ortwin_operand operands[OW_MAX_INPUTS] = {{0, -1, NULL}};
    for (size_t k = 0; k < what->input_count && k < OW_MAX_INPUTS; k++) {
        if (what->inputs[k] < 0)
            continue;
        status = check_slot(plan, what->inputs[k], error);
        if (status)
            return status;
        operands[k] = plan->slots[what->inputs[k]].known;
    }
    char *label = make_label(plan, what);
    if (!label)
        return ow_no_memory(error);
    ow_resolved resolved;
    ortwin_error rule;
    status = ow_resolve(&(ow_node_view){what, operands, plan->nbits_exact}, &resolved, &rule);
    if (!status)
        status = inspect_constants(plan, what, &resolved, &rule);
    if (status) {
        ow_fail(error, status, "%s: %s", label, rule.text);
        free(label);
        return status;
    }
    for (size_t k = 0; k < what->output_count && !status; k++) {
        ow_resolved part = ow_part(&resolved, k);
        status = add_node(plan, what, &part, operands, label, k > 0, &output_slots[k], error);
    }
    free(label);
    return status;
}

ortwin_status ortwin_plan_output(ortwin_plan *plan, int32_t index, ortwin_error *error) {
    ortwin_status status = check_open(plan, plan, error);
    if (!status)
        status = check_slot(plan, index, error);
    if (status)
        return status;
    int32_t *outputs = grown(plan, plan->outputs, plan->output_count, &plan->output_room, sizeof *outputs);
    if (!outputs)
        return ow_no_memory(error);
    plan->outputs = outputs;
    outputs[plan->output_count++] = index;
    return ORTWIN_OK;
}

int ow_is_copied(const ortwin_plan *plan, size_t k) {
    const ow_slot *s = &plan->slots[plan->outputs[k]];
    return s->from != FROM_NODE || s->output != (int32_t)k;
}

/* ---- sealing ---- */

static int all_constant(const ortwin_plan *plan, const ow_node *n) {
    for (size_t k = 0; k < n->input_count; k++)
        if (n->inputs[k] >= 0 && plan->slots[n->inputs[k]].from != FROM_CONSTANT)
            return 0;
    return 1;
}

/* Executes a node whose operands are constants; its output becomes one. When there is no memory for it the node stays,
 * and a Run will say so. */
static ortwin_status fold(ortwin_plan *plan, const ow_node *n, unsigned char **base, ow_value *values, int *folded,
                          ortwin_error *error) {
    ow_slot *target = &plan->slots[n->output];
    ow_value *made = &values[n->output]; /* all dimensions are known, so the slot's are the value's */
    *made = (ow_value){target->known.dims, (size_t)target->known.rank, 0, 0};
    if (!ow_tensor_size(target->known.dtype, made->rank, made->dims, &made->count, &made->bytes))
        return ow_fail(error, ORTWIN_OVERFLOW, "%s: the size of its output does not fit in memory", n->label);
    ortwin_status status = ORTWIN_OK;
    ow_axis *axes = alloc(plan, made->rank, sizeof *axes);
    unsigned char *data = alloc(plan, made->bytes, 1);
    if (axes && data) {
        ow_step step;
        base[n->output] = data;
        ow_make_step(plan, n, values, axes, &step);
        if (step.kind == STEP_WHOLE)
            status = ow_run_whole(plan, base, values, n, &(ow_fan){0}, error);
        else
            ow_run_kernel(base, &step, 0, 0, made->count);
        target->from = FROM_CONSTANT;
        target->constant = (ortwin_tensor){data, target->known.dims, made->rank, made->bytes, target->known.dtype};
        *folded = 1;
    } else
        free(data);
    free(axes);
    return status;
}

/* Nodes of constant operands are executed here, once and for all; what is left are the steps of a Run. */
static ortwin_status fold_constants(ortwin_plan *plan, ortwin_error *error) {
    unsigned char **base = alloc(plan, plan->slot_count, sizeof *base);
    ow_value *values = alloc(plan, plan->slot_count, sizeof *values);
    ortwin_status status = base && values ? ORTWIN_OK : ow_no_memory(error);
    for (size_t s = 0; s < plan->slot_count && !status; s++) {
        const ortwin_tensor *t = &plan->slots[s].constant;
        if (plan->slots[s].from != FROM_CONSTANT)
            continue;
        base[s] = t->data;
        values[s] = (ow_value){t->dims, t->rank, 0, 0};
        ow_tensor_size(t->dtype, t->rank, t->dims, &values[s].count, &values[s].bytes); /* it fits: it is there */
    }
    size_t kept = 0;
    ow_fpstate caller = ow_fpstate_enter();
    for (size_t k = 0; k < plan->node_count; k++) {
        int folded = 0;
        if (!status && all_constant(plan, &plan->nodes[k]))
            status = fold(plan, &plan->nodes[k], base, values, &folded, error);
        if (folded) {
            ow_count(&plan->tally, OW_nodes_folded, !plan->nodes[k].is_part);
            free(plan->nodes[k].label);
        } else
            plan->nodes[kept++] = plan->nodes[k];
    }
    plan->node_count = kept;
    ow_fpstate_leave(caller);
    free(base);
    free(values);
    return status;
}

/* Constants that only folded nodes read are needed no more. */
static void drop_unread(ow_slot *s) {
    if (s->from == FROM_CONSTANT && !s->read) {
        free(s->constant.data);
        s->constant.data = NULL;
    }
}

/* Packs what can be packed ahead of the node's constants; bit k: operand k is read as part of the pack. */
static uint32_t pack_constants(ortwin_plan *plan, ow_node *n) {
    _Static_assert((int)OW_MAX_INPUTS == OW_WHOLE_INPUTS, "a node's operands are those of an op executed as a whole");
    const ortwin_tensor *constants[OW_WHOLE_INPUTS];
    uint32_t replaced = 0;
    if (n->resolved.op->shape != OW_SHAPE_WHOLE)
        return 0;
    find_constants(plan, n->inputs, OW_MAX_INPUTS, constants);
    n->pack = ow_whole_pack(plan->isa->kernels, &n->resolved.whole, constants, &replaced, &plan->tally);
    return n->pack ? replaced : 0;
}

ortwin_status ortwin_plan_seal(ortwin_plan *plan, ortwin_error *error) {
    ortwin_status status = check_open(plan, plan, error);
    if (!status)
        status = fold_constants(plan, error);
    if (status)
        return status;
    for (size_t step = 0; step < plan->node_count; step++) {
        ow_node *n = &plan->nodes[step];
        plan->slots[n->output].step = step;
        plan->part_count += n->is_part != 0;
        uint32_t packed = pack_constants(plan, n);
        for (size_t k = 0; k < n->input_count; k++)
            if (n->inputs[k] >= 0) {
                plan->slots[n->inputs[k]].last_use = step;
                plan->slots[n->inputs[k]].read |= !(packed >> k & 1);
            }
    }
    for (size_t k = 0; k < plan->output_count; k++) {
        ow_slot *s = &plan->slots[plan->outputs[k]];
        if (s->from == FROM_NODE && s->output < 0)
            s->output = (int32_t)k;
        if (ow_is_copied(plan, k)) {
            s->last_use = plan->node_count + k;
            s->read = 1;
        }
    }
    for (size_t s = 0; s < plan->slot_count; s++)
        drop_unread(&plan->slots[s]);
    plan->sealed = 1;
    return ORTWIN_OK;
}

const char *ortwin_plan_isa(const ortwin_plan *plan) { return plan ? plan->isa->kernels->isa : ""; }
int32_t ortwin_plan_dtype(const ortwin_plan *plan, int32_t index) {
    return plan && !check_slot(plan, index, NULL) ? plan->slots[index].known.dtype : 0;
}
size_t ow_plan_input_count(const ortwin_plan *plan) { return plan->input_count; }

void ow_plan_share_trace(ortwin_plan *plan, ow_trace *trace) {
    if (plan->own_trace)
        ow_trace_end(plan->trace); /* nothing has happened, so nothing is said */
    plan->trace = trace;
    plan->own_trace = 0;
}

const char *ortwin_version(void) { return ORTWIN_VERSION; }
