/* The plan: nodes in order, values by slot, constants, shapes. The only executor; ctypes and ONNX Runtime both run it.
 *
 * A plan does not change once sealed, so any number of threads may run it at once: what a Run needs is in its frame. */
#include "run/plan.h"

#include "run/counters.h"
#include "run/cpu.h"
#include "run/fanout.h"
#include "run/fpstate.h"
#include "run/ops.h"
#include "run/split.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slot {
    enum { FROM_INPUT, FROM_CONSTANT, FROM_NODE } from;
    ortwin_operand known;   /* dims are ours */
    ortwin_tensor constant; /* data is ours, dims are known.dims */
    size_t input;           /* FROM_INPUT: which */
    size_t last_use;        /* the last step that reads it; steps are nodes, then the copies of the outputs */
    int32_t output;         /* FROM_NODE: the plan output whose buffer holds it, -1 for none */
} slot;

typedef struct node {
    ow_resolved resolved;
    ow_unary_fn *kernel;  /* NULL: a copy */
    ow_biased_fn *biased; /* NULL: no bias */
    size_t input_count;
    int32_t inputs[OW_MAX_INPUTS]; /* slots, -1 for a missing one */
    int32_t output;                /* slot */
    char *label;                   /* "node 'clip_3' (Clip)" */
} node;

struct ortwin_plan {
    const ow_isa *isa;
    int32_t threads;
    int sealed;
    slot *slots;
    size_t slot_count, slot_room;
    node *nodes;
    size_t node_count, node_room;
    int32_t *outputs; /* slots */
    size_t output_count, output_room;
    size_t input_count;
};

/* Room for one more entry; NULL when there is no memory, with the array untouched. */
static void *grown(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    size_t wanted = *room ? *room * 2 : 8;
    if (wanted > SIZE_MAX / size)
        return NULL;
    void *larger = realloc(array, wanted * size);
    if (larger)
        *room = wanted;
    return larger;
}

static ortwin_status no_memory(ortwin_error *error) { return ow_fail(error, ORTWIN_OUT_OF_MEMORY, "out of memory"); }

/* The size of a tensor of this type and shape. what: for messages, "input 2". */
static ortwin_status tensor_bytes(int32_t dtype, size_t rank, const int64_t *dims, size_t *bytes, const char *what,
                                  size_t index, ortwin_error *error) {
    size_t total = ow_item_size(dtype);
    if (!total)
        return ow_fail(error, ORTWIN_BAD_DTYPE, "%s %zu: %s has no fixed element size", what, index,
                       ow_dtype_name(dtype));
    if (rank && !dims)
        return ow_fail(error, ORTWIN_NULL_POINTER, "%s %zu: dims are NULL at rank %zu", what, index, rank);
    int empty = 0, overflow = 0;
    for (size_t k = 0; k < rank; k++) {
        if (dims[k] < 0)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "%s %zu: dimension %zu is negative", what, index, k);
        if (dims[k] == 0)
            empty = 1;
        else if (!overflow)
            overflow = __builtin_mul_overflow(total, (size_t)dims[k], &total);
    }
    if (!empty && (overflow || total > PTRDIFF_MAX))
        return ow_fail(error, ORTWIN_OVERFLOW, "%s %zu: its size does not fit in memory", what, index);
    *bytes = empty ? 0 : total;
    return ORTWIN_OK;
}

static ortwin_status check_tensor(const ortwin_tensor *t, const char *what, size_t index, ortwin_error *error) {
    size_t bytes = 0;
    ortwin_status status = tensor_bytes(t->dtype, t->rank, t->dims, &bytes, what, index, error);
    if (status)
        return status;
    if (t->bytes != bytes)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "%s %zu: the buffer has %zu bytes, its shape %zu", what, index,
                       t->bytes, bytes);
    if (bytes && !t->data)
        return ow_fail(error, ORTWIN_NULL_POINTER, "%s %zu: data is NULL", what, index);
    return ORTWIN_OK;
}

/* ---- building ---- */

ortwin_status ortwin_plan_new(const char *isa, int32_t threads, ortwin_plan **plan, ortwin_error *error) {
    if (!plan)
        return ow_fail(error, ORTWIN_NULL_POINTER, "plan is NULL");
    *plan = NULL;
    if (threads < 0 || threads > ORTWIN_MAX_THREADS)
        return ow_fail(error, ORTWIN_MISUSE, "threads must be 0 to %d, not %d", ORTWIN_MAX_THREADS, (int)threads);
    const ow_isa *chosen;
    ortwin_status status = ow_choose_isa(isa, &chosen, error);
    if (status)
        return status;
    ortwin_plan *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory(error);
    made->isa = chosen;
    made->threads = threads;
    *plan = made;
    return ORTWIN_OK;
}

void ortwin_plan_free(ortwin_plan *plan) {
    if (!plan)
        return;
    for (size_t k = 0; k < plan->slot_count; k++) {
        free((void *)(uintptr_t)plan->slots[k].known.dims);
        free(plan->slots[k].constant.data);
    }
    for (size_t k = 0; k < plan->node_count; k++)
        free(plan->nodes[k].label);
    free(plan->slots);
    free(plan->nodes);
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
static ortwin_status add_slot(ortwin_plan *plan, const ortwin_operand *known, slot **made, int32_t *index,
                              ortwin_error *error) {
    if (known->rank > 0 && !known->dims)
        return ow_fail(error, ORTWIN_NULL_POINTER, "dims are NULL at rank %d", (int)known->rank);
    if (plan->slot_count >= INT32_MAX)
        return ow_fail(error, ORTWIN_OVERFLOW, "a plan holds at most 2^31-1 values");
    slot *slots = grown(plan->slots, plan->slot_count, &plan->slot_room, sizeof *slots);
    if (!slots)
        return no_memory(error);
    plan->slots = slots;
    int64_t *dims = NULL;
    if (known->rank > 0) {
        size_t size = (size_t)known->rank * sizeof *dims;
        dims = malloc(size);
        if (!dims)
            return no_memory(error);
        memcpy(dims, known->dims, size);
    }
    slot *fresh = &slots[plan->slot_count];
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
    if (!ow_item_size(what->dtype))
        return ow_fail(error, ORTWIN_BAD_DTYPE, "input %zu: %s has no fixed element size", plan->input_count,
                       ow_dtype_name(what->dtype));
    slot *fresh;
    status = add_slot(plan, what, &fresh, index, error);
    if (status)
        return status;
    fresh->from = FROM_INPUT;
    fresh->input = plan->input_count++;
    return ORTWIN_OK;
}

ortwin_status ortwin_plan_constant(ortwin_plan *plan, const ortwin_tensor *value, int32_t *index, ortwin_error *error) {
    ortwin_status status = check_open(plan, value, error);
    if (!status)
        status = check_tensor(value, "constant", plan->slot_count, error);
    if (status)
        return status;
    if (!index)
        return ow_fail(error, ORTWIN_NULL_POINTER, "slot is NULL");
    if (value->rank > INT32_MAX)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "constant: the rank is too large");
    void *copy = malloc(value->bytes ? value->bytes : 1);
    if (!copy)
        return no_memory(error);
    if (value->bytes)
        memcpy(copy, value->data, value->bytes);
    slot *fresh;
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
static char *make_label(const ortwin_node *what) {
    enum { SIZE = 256 };
    char *label = malloc(SIZE);
    if (label)
        snprintf(label, SIZE, "node '%.160s' (%.64s)", what->name ? what->name : "",
                 what->op_type ? what->op_type : "");
    return label;
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
    char *label = make_label(what);
    if (!label)
        return no_memory(error);
    ow_resolved resolved;
    ortwin_error rule;
    status = ow_resolve(&(ow_node_view){what, operands}, &resolved, &rule);
    if (status) {
        ow_fail(error, status, "%s: %s", label, rule.text);
        free(label);
        return status;
    }
    ow_unary_fn *kernel = plan->isa->kernels->unary[resolved.op->kernel][resolved.dtype];
    ow_biased_fn *biased = NULL;
    if (ow_takes_bias(resolved.op) && what->input_count > 1 && what->inputs[1] >= 0) {
        biased = plan->isa->kernels->biased[resolved.op->kernel][resolved.dtype];
        assert(biased); /* as below */
    }
    assert(kernel || resolved.op->kernel == OW_KERNEL_copy); /* a row of ops.def without its kernel */
    node *nodes = grown(plan->nodes, plan->node_count, &plan->node_room, sizeof *nodes);
    if (!nodes) {
        free(label);
        return no_memory(error);
    }
    plan->nodes = nodes;
    slot *fresh;
    ortwin_operand produced = operands[0];
    produced.dtype = resolved.dtype;
    status = add_slot(plan, &produced, &fresh, output_slots, error);
    if (status) {
        free(label);
        return status;
    }
    fresh->from = FROM_NODE;
    node *added = &nodes[plan->node_count++];
    *added = (node){resolved, kernel, biased, what->input_count, {-1, -1, -1}, output_slots[0], label};
    for (size_t k = 0; k < what->input_count; k++)
        added->inputs[k] = what->inputs[k] < 0 ? -1 : what->inputs[k];
    return ORTWIN_OK;
}

ortwin_status ortwin_plan_output(ortwin_plan *plan, int32_t index, ortwin_error *error) {
    ortwin_status status = check_open(plan, plan, error);
    if (!status)
        status = check_slot(plan, index, error);
    if (status)
        return status;
    int32_t *outputs = grown(plan->outputs, plan->output_count, &plan->output_room, sizeof *outputs);
    if (!outputs)
        return no_memory(error);
    plan->outputs = outputs;
    outputs[plan->output_count++] = index;
    return ORTWIN_OK;
}

/* Plan output k is written by its producer, or at the end as a copy: of an input, of a constant, of a value that is
 * already the buffer of an earlier output. */
static int is_copied(const ortwin_plan *plan, size_t k) {
    const slot *s = &plan->slots[plan->outputs[k]];
    return s->from != FROM_NODE || s->output != (int32_t)k;
}

ortwin_status ortwin_plan_seal(ortwin_plan *plan, ortwin_error *error) {
    ortwin_status status = check_open(plan, plan, error);
    if (status)
        return status;
    for (size_t step = 0; step < plan->node_count; step++)
        for (size_t k = 0; k < plan->nodes[step].input_count; k++)
            if (plan->nodes[step].inputs[k] >= 0)
                plan->slots[plan->nodes[step].inputs[k]].last_use = step;
    for (size_t k = 0; k < plan->output_count; k++) {
        slot *s = &plan->slots[plan->outputs[k]];
        if (s->from == FROM_NODE && s->output < 0)
            s->output = (int32_t)k;
        if (is_copied(plan, k))
            s->last_use = plan->node_count + k;
    }
    plan->sealed = 1;
    return ORTWIN_OK;
}

const char *ortwin_plan_isa(const ortwin_plan *plan) { return plan ? plan->isa->kernels->isa : ""; }
int32_t ortwin_plan_dtype(const ortwin_plan *plan, int32_t index) {
    return plan && !check_slot(plan, index, NULL) ? plan->slots[index].known.dtype : 0;
}
size_t ow_plan_input_count(const ortwin_plan *plan) { return plan->input_count; }

/* ---- running ---- */

typedef struct frame {
    const ortwin_plan *plan;
    const ortwin_host *host; /* NULL: the library's own threads */
    const ortwin_tensor *inputs;
    ortwin_output_fn output;
    void *user;
    ortwin_error *error;
    ortwin_tensor *values; /* per slot */
    void **written;        /* per plan output: its buffer, NULL while it has none */
    ow_tally tally;
} frame;

static ortwin_status bind_inputs(const frame *f) {
    const ortwin_plan *plan = f->plan;
    for (size_t s = 0; s < plan->slot_count; s++) {
        const slot *declared = &plan->slots[s];
        if (declared->from == FROM_CONSTANT)
            f->values[s] = declared->constant;
        if (declared->from != FROM_INPUT)
            continue;
        const ortwin_tensor *given = &f->inputs[declared->input];
        ortwin_status status = check_tensor(given, "input", declared->input, f->error);
        if (status)
            return status;
        if (given->dtype != declared->known.dtype)
            return ow_fail(f->error, ORTWIN_BAD_DTYPE, "input %zu is %s, the plan was built for %s", declared->input,
                           ow_dtype_name(given->dtype), ow_dtype_name(declared->known.dtype));
        if (declared->known.rank >= 0 && given->rank != (size_t)declared->known.rank)
            return ow_fail(f->error, ORTWIN_BAD_SHAPE, "input %zu has rank %zu, the plan was built for %d",
                           declared->input, given->rank, (int)declared->known.rank);
        for (int32_t k = 0; k < declared->known.rank; k++)
            if (declared->known.dims[k] >= 0 && given->dims[k] != declared->known.dims[k])
                return ow_fail(f->error, ORTWIN_BAD_SHAPE,
                               "input %zu: dimension %d is %lld, the plan was built for %lld", declared->input, (int)k,
                               (long long)given->dims[k], (long long)declared->known.dims[k]);
        f->values[s] = *given;
    }
    return ORTWIN_OK;
}

static int overlaps(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return a_bytes && b_bytes && p < q + b_bytes && q < p + a_bytes;
}

/* Asks the host for the buffer of plan output k, which step `step` writes. It may be exactly an input's buffer when
 * nothing reads that input later (kernels allow y == x); any other overlap with an input or an output is refused. */
static ortwin_status take_output(frame *f, size_t k, size_t step, ortwin_tensor *value) {
    const ortwin_plan *plan = f->plan;
    value->data = NULL;
    value->data = f->output(f->user, k, value);
    if (!value->bytes)
        return ORTWIN_OK;
    if (!value->data)
        return ow_fail(f->error, ORTWIN_HOST_FAILED, "output %zu: the host gave no buffer", k);
    for (size_t s = 0; s < plan->slot_count; s++) {
        const slot *other = &plan->slots[s];
        const ortwin_tensor *in = &f->values[s];
        if (other->from != FROM_INPUT || !overlaps(value->data, value->bytes, in->data, in->bytes))
            continue;
        if (value->data != in->data || value->bytes != in->bytes || other->last_use > step)
            return ow_fail(f->error, ORTWIN_OVERLAP, "output %zu overlaps input %zu and is not an exact in-place use",
                           k, other->input);
    }
    for (size_t j = 0; j < plan->output_count; j++)
        if (f->written[j] && overlaps(value->data, value->bytes, f->written[j], f->values[plan->outputs[j]].bytes))
            return ow_fail(f->error, ORTWIN_OVERLAP, "output %zu overlaps output %zu", k, j);
    f->written[k] = value->data;
    return ORTWIN_OK;
}

/* Clip's bounds, when they are operands: rank 0 is a rule of the ONNX text that may first be seen here. */
static ortwin_status read_bounds(const frame *f, const node *n, ow_params *params) {
    const void *bounds[2] = {NULL, NULL};
    for (size_t k = 1; k < n->input_count; k++) {
        if (n->inputs[k] < 0)
            continue;
        const ortwin_tensor *bound = &f->values[n->inputs[k]];
        if (bound->rank != 0)
            return ow_fail(f->error, ORTWIN_BAD_SHAPE, "%s: the %s has rank %zu, the rule is rank 0", n->label,
                           k == 1 ? "min" : "max", bound->rank);
        bounds[k - 1] = bound->data;
    }
    ow_clip_bounds(params, n->resolved.dtype, bounds[0], bounds[1]);
    return ORTWIN_OK;
}

/* A bias, whose shape may first be known here. */
static ortwin_status check_bias(const frame *f, const node *n) {
    const ortwin_tensor *x = &f->values[n->inputs[0]], *bias = &f->values[n->inputs[1]];
    ortwin_operand shapes[2] = {{x->dtype, x->rank > INT32_MAX ? INT32_MAX : (int32_t)x->rank, x->dims},
                                {bias->dtype, bias->rank > 1 ? 2 : (int32_t)bias->rank, bias->dims}};
    const char *rule = ow_bias_rule(&shapes[0], &shapes[1]);
    return rule ? ow_fail(f->error, ORTWIN_BAD_SHAPE, "%s: %s", n->label, rule) : ORTWIN_OK;
}

/* Elementwise work, cut into pieces. The kernel was chosen with the plan: a piece has no choice. */
typedef struct elements {
    ow_unary_fn *kernel; /* NULL: a copy */
    ow_biased_fn *biased;
    const unsigned char *x, *row;
    unsigned char *y;
    const ow_params *params;
    size_t item, width, length, piece;
} elements;

static void compute_range(const elements *e, size_t start, size_t n) {
    const unsigned char *x = e->x + start * e->item;
    unsigned char *y = e->y + start * e->item;
    if (e->biased)
        e->biased(x, e->row, y, n, e->width, e->params);
    else if (e->kernel)
        e->kernel(x, y, n, e->params);
    else if (x != y)
        memcpy(y, x, n * e->item);
}

static void compute_piece(void *user, size_t index) {
    const elements *e = user;
    size_t start = index * e->piece, left = e->length - start;
    compute_range(e, start, left < e->piece ? left : e->piece);
}

/* Everything that a Run computes or copies goes through here. */
static void compute(frame *f, elements *e, ow_cost cost) {
    if (f->plan->threads != 1) { /* what is too short never gets as far as a pool */
        e->piece = ow_piece_length(e->length, cost, e->width);
        ow_team team = {f->plan->threads, f->host};
        if (e->piece < e->length && ow_fan_out(&team, (e->length - 1) / e->piece + 1, compute_piece, e, &f->tally))
            return;
    }
    compute_range(e, 0, e->length);
}

static int is_intermediate(const slot *s) { return s->from == FROM_NODE && s->output < 0; }

static ortwin_status execute(frame *f, size_t step) {
    const node *n = &f->plan->nodes[step];
    const ortwin_tensor *x = &f->values[n->inputs[0]];
    ortwin_tensor *y = &f->values[n->output];
    const slot *target = &f->plan->slots[n->output];

    *y = *x; /* OW_SHAPE_SAME */
    y->data = NULL;
    ow_params params = n->resolved.params;
    ortwin_status status = ORTWIN_OK;
    if (n->resolved.op->kernel == OW_KERNEL_clip && n->resolved.op->max_inputs > 1)
        status = read_bounds(f, n, &params);
    if (n->biased)
        status = check_bias(f, n);
    if (status)
        return status;
    if (target->output >= 0)
        status = take_output(f, (size_t)target->output, step, y);
    else if (y->bytes && !(y->data = malloc(y->bytes)))
        status = no_memory(f->error);
    if (status)
        return status;
    if (y->bytes) {
        elements e = {n->kernel, n->biased, x->data, NULL, y->data, &params, ow_item_size(n->resolved.dtype), 1, 0, 0};
        e.length = y->bytes / e.item;
        if (n->biased) {
            e.row = f->values[n->inputs[1]].data;
            e.width = (size_t)x->dims[x->rank - 1];
        }
        compute(f, &e, n->resolved.op->cost);
    }
    f->tally.nodes_executed++;
    for (size_t k = 0; k < n->input_count; k++) {
        if (n->inputs[k] < 0 || f->plan->slots[n->inputs[k]].last_use != step)
            continue;
        if (is_intermediate(&f->plan->slots[n->inputs[k]])) {
            free(f->values[n->inputs[k]].data);
            f->values[n->inputs[k]].data = NULL;
        }
    }
    return ORTWIN_OK;
}

static ortwin_status copy_output(frame *f, size_t k) {
    const ortwin_tensor *x = &f->values[f->plan->outputs[k]];
    ortwin_tensor y = *x;
    ortwin_status status = take_output(f, k, f->plan->node_count + k, &y);
    if (!status && y.bytes)
        compute(f, &(elements){.x = x->data, .y = y.data, .item = 1, .width = 1, .length = y.bytes}, OW_COST_MEMORY);
    return status;
}

ortwin_status ortwin_plan_run(const ortwin_plan *plan, const ortwin_tensor *inputs, size_t input_count,
                              ortwin_output_fn output, void *user, ortwin_error *error) {
    return ortwin_plan_run_in(plan, NULL, inputs, input_count, output, user, error);
}

ortwin_status ortwin_plan_run_in(const ortwin_plan *plan, const ortwin_host *host, const ortwin_tensor *inputs,
                                 size_t input_count, ortwin_output_fn output, void *user, ortwin_error *error) {
    if (!plan || (input_count && !inputs) || !output || (host && (!host->dispatch || !host->state)))
        return ow_fail(error, ORTWIN_NULL_POINTER, "%s is NULL", plan ? "an argument" : "plan");
    if (!plan->sealed)
        return ow_fail(error, ORTWIN_MISUSE, "the plan is not sealed");
    if (input_count != plan->input_count)
        return ow_fail(error, ORTWIN_MISUSE, "the plan has %zu inputs, %zu were given", plan->input_count, input_count);

    /* Small plans, such as a single claimed node, need no heap. */
    ortwin_tensor few_values[8];
    void *few_written[4] = {NULL};
    frame f = {plan, host, inputs, output, user, error, few_values, few_written, {0}};
    void *heap = NULL;
    if (plan->slot_count > sizeof few_values / sizeof few_values[0] ||
        plan->output_count > sizeof few_written / sizeof few_written[0]) {
        /* Cannot overflow: the plan itself holds larger entries in as many places. */
        heap = calloc(1, plan->slot_count * sizeof *f.values + plan->output_count * sizeof *f.written);
        if (!heap)
            return no_memory(error);
        f.values = heap;
        f.written = (void **)(void *)(f.values + plan->slot_count);
    } else
        memset(few_values, 0, plan->slot_count * sizeof few_values[0]);

    ow_fpstate caller = ow_fpstate_enter();
    ortwin_status status = bind_inputs(&f);
    for (size_t step = 0; step < plan->node_count && !status; step++)
        status = execute(&f, step);
    for (size_t k = 0; k < plan->output_count && !status; k++)
        if (is_copied(plan, k))
            status = copy_output(&f, k);
    ow_fpstate_leave(caller);

    for (size_t s = 0; s < plan->slot_count; s++) /* what an error left behind, or nothing read */
        if (is_intermediate(&plan->slots[s]))
            free(f.values[s].data);
    free(heap);
    if (!status)
        f.tally.runs = 1;
    else
        f.tally.nodes_executed = 0;
    ow_flush(&f.tally);
    return status;
}

const char *ortwin_version(void) { return ORTWIN_VERSION; }
