/* A Run: the only executor; ctypes and ONNX Runtime both come here. What the nodes are is in the plan, what follows from
 * the shapes in the signature; what is left to do is to ask for the outputs and to call kernels. */
#include "run/parts.h"

#include "run/fanout.h"
#include "run/fpstate.h"
#include "run/split.h"

#include <string.h>

/* ---- one node ---- */

static void run_bounded(unsigned char *const *base, const ow_step *step, const void *x, void *y, size_t count) {
    const void *bounds[2] = {NULL, NULL};
    ow_params params = *step->params;
    for (size_t k = 1; k < step->node->input_count; k++)
        if (step->node->inputs[k] >= 0)
            bounds[k - 1] = base[step->node->inputs[k]];
    ow_clip_bounds(&params, step->node->resolved.dtype, bounds[0], bounds[1]);
    step->unary(x, y, count, &params);
}

/* A piece may begin within a row. */
static void run_biased(const ow_step *step, const unsigned char *x, const unsigned char *row, unsigned char *y,
                       size_t begin, size_t count) {
    size_t column = step->b_step ? 0 : begin % step->width, head = 0;
    if (column) {
        head = step->width - column < count ? step->width - column : count;
        step->biased(x, row + column * step->item, y, head, head, step->params);
    }
    step->biased(x + head * step->item, row, y + head * step->item, count - head, step->width, step->params);
}

/* Both operands by rows of the innermost axis; where a row begins follows from its number, so any piece can be run by
 * itself. x and b: where operands that move in step with the output are at `begin`. */
static void run_walked(const ow_step *step, const unsigned char *x, const unsigned char *b, unsigned char *y,
                       size_t begin, size_t count) {
    const ow_axis *inner = &step->axes[step->axis_count - 1];
    size_t row = begin / inner->size, column = begin % inner->size, done = 0;
    while (done < count) {
        size_t at[2] = {column * inner->step[0], column * inner->step[1]}, rest = row;
        for (size_t k = step->axis_count - 1; k-- > 0;) {
            size_t index = k ? rest % step->axes[k].size : rest;
            rest /= step->axes[k].size;
            at[0] += index * step->axes[k].step[0];
            at[1] += index * step->axes[k].step[1];
        }
        size_t n = inner->size - column < count - done ? inner->size - column : count - done;
        step->binary(x + (step->x_step == 1 ? done : at[0]) * step->item, inner->step[0],
                     b + (step->b_step == 1 ? done : at[1]) * step->item, inner->step[1], y + done * step->item, n);
        done += n;
        column = 0;
        row++;
    }
}

static unsigned char *find(unsigned char *const *base, ow_place place, size_t lane, size_t begin) {
    return base[place.slot] + begin * place.item + lane * place.lane;
}

void ow_run_kernel(unsigned char *const *base, const ow_step *step, size_t lane, size_t begin, size_t count) {
    if (!count)
        return;
    const unsigned char *x = find(base, step->x, lane, begin), *b = find(base, step->b, lane, begin);
    unsigned char *y = find(base, step->y, lane, begin);
    switch (step->kind) {
    case STEP_UNARY: step->unary(x, y, count, step->params); break;
    case STEP_BOUNDED: run_bounded(base, step, x, y, count); break;
    case STEP_BIASED: run_biased(step, x, b, y, begin, count); break;
    case STEP_PAIRED: step->binary(x, step->x_step, b, step->b_step, y, count); break;
    case STEP_WALKED: run_walked(step, x, b, y, begin, count); break;
    case STEP_WHOLE: break; /* ow_run_whole has computed these elements */
    case STEP_COPY:
        if (y != x)
            memcpy(y, x, count * step->item);
        break;
    }
}

ortwin_status ow_run_whole(const ortwin_plan *plan, unsigned char *const *base, const ow_value *values,
                           const ow_node *node, const ow_fan *fan, ortwin_error *error) {
    ortwin_tensor tensors[OW_MAX_INPUTS];
    const ortwin_tensor *inputs[OW_MAX_INPUTS] = {NULL};
    /* Rules about elements hold where there is nothing to compute, too. */
    if (!values[node->output].count && !ow_whole_inspected(&node->resolved.whole))
        return ORTWIN_OK;
    for (size_t k = 0; k < OW_MAX_INPUTS; k++) {
        int32_t s = node->inputs[k];
        if (s < 0)
            continue;
        tensors[k] =
            (ortwin_tensor){base[s], values[s].dims, values[s].rank, values[s].bytes, plan->slots[s].known.dtype};
        inputs[k] = &tensors[k];
    }
    const ow_value *v = &values[node->output];
    ortwin_tensor y = {base[node->output], v->dims, v->rank, v->bytes, plan->slots[node->output].known.dtype};
    ortwin_error rule;
    ortwin_status status = ow_whole_run(plan->isa->kernels, &node->resolved.whole, inputs, node->pack, fan, &y, &rule);
    return status ? ow_fail(error, status, "%s: %s", node->label, rule.text) : ORTWIN_OK;
}

/* ---- pieces ---- */

/* Elements begin to end of a segment: its steps take turns at pieces that fit in the cache. */
static void run_range(const ow_frame *frame, const ow_segment *segment, size_t lane, size_t begin, size_t end) {
    const ow_step *first = frame->signature->steps + segment->first, *last = frame->signature->steps + segment->end;
    for (; begin < end; begin += segment->piece) {
        size_t left = end - begin, count = left < segment->piece ? left : segment->piece;
        for (const ow_step *step = first; step < last; step++)
            ow_run_kernel(frame->base, step, lane, begin, count);
    }
}

typedef struct segment_work {
    ow_frame *frame;
    const ow_segment *segment;
    atomic_size_t pieces; /* of what follows a product */
} segment_work;

static void run_cut(void *user, size_t index) {
    const segment_work *work = user;
    size_t begin = index * work->segment->cut, left = work->segment->count - begin;
    run_range(work->frame, work->segment, index, begin,
              begin + (left < work->segment->cut ? left : work->segment->cut));
}

static size_t pieces_of(size_t count, size_t piece) { return count ? (count - 1) / piece + 1 : 0; }

/* Where the length alone says that one thread is best, nothing that could touch a pool is reached. */
static int fan_out(ow_frame *frame, size_t count, size_t cut, ortwin_task_fn task, void *work) {
    if (cut >= count)
        return 0;
    return ow_fan_out(&(ow_team){frame->plan->threads, frame->pool}, pieces_of(count, cut), task, work, &frame->tally);
}

static int fan_whole(void *context, size_t count, void (*task)(void *user, size_t index), void *user) {
    ow_frame *frame = ((segment_work *)context)->frame;
    return ow_fan_out(&(ow_team){frame->plan->threads, frame->pool}, count, task, user, &frame->tally);
}

/* The rest of a segment that begins with a product, on elements that it has finished. */
static void follow(void *context, const unsigned char *finished, size_t count) {
    segment_work *work = context;
    const ow_step *first = work->frame->signature->steps + work->segment->first;
    size_t begin = (size_t)(finished - work->frame->base[first->node->output]) / first->item;
    run_range(work->frame, work->segment, 0, begin, begin + count);
    atomic_fetch_add_explicit(&work->pieces, pieces_of(count, work->segment->piece), memory_order_relaxed);
}

static void count_chain(ow_frame *frame, const ow_segment *segment, size_t pieces) {
    if (segment->end - segment->first == 1)
        return;
    ow_count(&frame->tally, OW_chains, 1);
    ow_count(&frame->tally, OW_chain_pieces, pieces);
}

static ortwin_status run_whole_segment(ow_frame *frame, const ow_segment *segment, ortwin_error *error) {
    const ow_node *node = frame->signature->steps[segment->first].node;
    segment_work work = {.frame = frame, .segment = segment};
    int is_followed = segment->end - segment->first > 1;
    ow_fan fan = {fan_whole, is_followed ? follow : NULL, &work, segment->cut < segment->count};
    ortwin_status status = ow_run_whole(frame->plan, frame->base, frame->signature->values, node, &fan, error);
    count_chain(frame, segment, atomic_load(&work.pieces));
    return status;
}

static ortwin_status run_segment(ow_frame *frame, const ow_segment *segment, ortwin_error *error) {
    if (ow_begins_whole(frame->signature, segment))
        return run_whole_segment(frame, segment, error);
    size_t count = segment->count, cut = segment->cut, pieces = pieces_of(count, segment->piece);
    segment_work work = {.frame = frame, .segment = segment};
    if (fan_out(frame, count, cut, run_cut, &work)) {
        size_t whole = count / cut;
        pieces = whole * pieces_of(cut, segment->piece) + pieces_of(count - whole * cut, segment->piece);
    } else
        run_range(frame, segment, 0, 0, count);
    count_chain(frame, segment, pieces);
    return ORTWIN_OK;
}

/* ---- inputs and outputs ---- */

/* What is wrong with the inputs, if anything is. */
static ortwin_status check_inputs(const ow_frame *frame, ortwin_error *error) {
    const ortwin_plan *plan = frame->plan;
    for (size_t k = 0; k < plan->input_count; k++) {
        const ortwin_operand *known = &plan->slots[plan->inputs[k]].known;
        const ortwin_tensor *given = &frame->inputs[k];
        ortwin_status status = ow_check_tensor(given, "input", k, error);
        if (status)
            return status;
        if (given->dtype != known->dtype)
            return ow_fail(error, ORTWIN_BAD_DTYPE, "input %zu is %s, the plan was built for %s", k,
                           ow_dtype_name(given->dtype), ow_dtype_name(known->dtype));
        if (known->rank >= 0 && given->rank != (size_t)known->rank)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "input %zu has rank %zu, the plan was built for %d", k, given->rank,
                           (int)known->rank);
        if (given->rank > INT32_MAX)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "input %zu: the rank is too large", k);
        for (int32_t axis = 0; axis < known->rank; axis++)
            if (known->dims[axis] >= 0 && given->dims[axis] != known->dims[axis])
                return ow_fail(error, ORTWIN_BAD_SHAPE, "input %zu: dimension %d is %lld, the plan was built for %lld",
                               k, (int)axis, (long long)given->dims[axis], (long long)known->dims[axis]);
    }
    return ORTWIN_OK;
}

static int overlaps(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return a_bytes && b_bytes && p < q + b_bytes && q < p + a_bytes;
}

/* Whether the steps that take turns with `step` read the slot, if at all, only where they write: element by element, in
 * elements of `item` bytes. Another piece could overwrite whatever else they read. */
static int is_read_in_step(const ow_signature *signature, size_t step, int32_t slot, size_t item) {
    const ow_segment *segment = signature->segments;
    while (step >= segment->end)
        segment++;
    if (segment->count <= segment->piece && segment->count <= segment->cut && !ow_begins_whole(signature, segment))
        return 1; /* a single piece: nobody takes turns */
    for (const ow_step *s = signature->steps + segment->first; s < signature->steps + segment->end; s++)
        for (size_t k = 0; k < s->node->input_count; k++) {
            const ow_place *place = k == 0 ? &s->x : &s->b;
            if (s->node->inputs[k] == slot && (k > 1 || place->slot != (uint32_t)slot || place->item != item))
                return 0;
        }
    return 1;
}

/* Where in frame->by_address, which holds `count` outputs, output k belongs. Their buffers do not overlap one another, so
 * one that overlaps k's lies beside that place. */
static size_t place_of(const ow_frame *frame, size_t k, size_t count) {
    size_t first = 0;
    while (first < count) {
        size_t middle = first + (count - first) / 2;
        if ((uintptr_t)frame->written[frame->by_address[middle]] < (uintptr_t)frame->written[k])
            first = middle + 1;
        else
            count = middle;
    }
    return first;
}

/* The buffer of output k may be exactly an input's, when nothing reads that input after the step that writes (kernels
 * allow y == x), and what takes turns with it reads the input in step; any other overlap with an input or with an
 * earlier output is refused. *count: outputs in frame->by_address, of which this one becomes one. */
static ortwin_status check_overlap(const ow_frame *frame, size_t k, size_t *count, ortwin_error *error) {
    const ortwin_plan *plan = frame->plan;
    const ow_value *values = frame->signature->values;
    unsigned char *const *written = frame->written;
    size_t bytes = values[plan->outputs[k]].bytes;
    size_t step = ow_is_copied(plan, k) ? plan->node_count + k : plan->slots[plan->outputs[k]].step;
    /* What is executed as a whole may not write where it reads. */
    size_t free_from =
        step < plan->node_count && plan->nodes[step].resolved.op->shape == OW_SHAPE_WHOLE ? step : step + 1;
    for (size_t j = 0; j < plan->input_count; j++) {
        const ortwin_tensor *in = &frame->inputs[j];
        if (overlaps(written[k], bytes, in->data, in->bytes) &&
            (written[k] != in->data || bytes != in->bytes || plan->slots[plan->inputs[j]].last_use >= free_from ||
             (step < plan->node_count && !is_read_in_step(frame->signature, step, plan->inputs[j],
                                                          ow_item_size(plan->slots[plan->outputs[k]].known.dtype)))))
            return ow_fail(error, ORTWIN_OVERLAP, "output %zu overlaps input %zu and is not an exact in-place use", k,
                           j);
    }
    size_t place = place_of(frame, k, *count);
    for (size_t at = place ? place - 1 : 0; at < *count && at <= place; at++) {
        size_t j = frame->by_address[at];
        if (overlaps(written[k], bytes, written[j], values[plan->outputs[j]].bytes))
            return ow_fail(error, ORTWIN_OVERLAP, "output %zu overlaps output %zu", k, j);
    }
    memmove(frame->by_address + place + 1, frame->by_address + place, (*count - place) * sizeof *frame->by_address);
    frame->by_address[place] = k;
    ++*count;
    return ORTWIN_OK;
}

static ortwin_status no_buffer(const ortwin_plan *plan, size_t k, size_t bytes, ortwin_error *error) {
    const ow_slot *slot = &plan->slots[plan->outputs[k]];
    const char *label = slot->from == FROM_NODE ? plan->nodes[slot->step].label : "";
    return ow_fail(error, ORTWIN_HOST_FAILED, "%s%soutput %zu: the host gave no buffer of %zu bytes", label,
                   *label ? ", " : "", k, bytes);
}

/* Asks the host for the buffers of all outputs, each once. */
static ortwin_status take_outputs(ow_frame *frame, ortwin_output_fn output, void *user, ortwin_error *error) {
    const ortwin_plan *plan = frame->plan;
    size_t placed = 0;
    for (size_t k = 0; k < plan->output_count; k++) {
        int32_t slot = plan->outputs[k];
        const ow_value *value = &frame->signature->values[slot];
        const ortwin_tensor shape = {NULL, value->dims, value->rank, value->bytes, plan->slots[slot].known.dtype};
        frame->written[k] = output(user, k, &shape);
        if (!value->bytes)
            continue;
        if (!frame->written[k])
            return no_buffer(plan, k, value->bytes, error);
        ortwin_status status = check_overlap(frame, k, &placed, error);
        if (status)
            return status;
        if (!ow_is_copied(plan, k))
            frame->base[slot] = frame->written[k];
    }
    return ORTWIN_OK;
}

typedef struct copy_work {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes, cut;
} copy_work;

static void copy_cut(void *user, size_t index) {
    const copy_work *work = user;
    size_t begin = index * work->cut, left = work->bytes - begin;
    memcpy(work->to + begin, work->from + begin, left < work->cut ? left : work->cut);
}

static void copy_outputs(ow_frame *frame) {
    const ortwin_plan *plan = frame->plan;
    for (size_t k = 0; k < plan->output_count; k++) {
        size_t bytes = frame->signature->values[plan->outputs[k]].bytes;
        copy_work work = {frame->written[k], frame->base[plan->outputs[k]], bytes, bytes};
        if (!bytes || !ow_is_copied(plan, k) || work.to == work.from)
            continue;
        if (plan->threads != 1)
            work.cut = ow_piece_length(bytes, OW_COST_MEMORY, 1);
        if (!fan_out(frame, bytes, work.cut, copy_cut, &work))
            memcpy(work.to, work.from, bytes);
    }
}

/* ---- a Run ---- */

static ortwin_status meet_signature(ow_frame *frame, ortwin_error *error) {
    if (frame->signature && ow_matches(frame->plan, frame->signature, frame->inputs)) {
        ow_count(&frame->tally, OW_signatures_reused, 1);
        return ORTWIN_OK;
    }
    ow_signature *found;
    ortwin_status status = check_inputs(frame, error);
    if (!status)
        status = ow_find_signature(frame->plan, frame->inputs, &frame->tally, &found, error);
    return status ? status : ow_frame_adopt(frame, found, error);
}

ortwin_status ow_plan_execute(ow_frame *frame, const ortwin_host *pool, ortwin_output_fn output, void *user,
                              ortwin_error *error) {
    const ortwin_plan *plan = frame->plan;
    frame->pool = pool;
    uint64_t begin = ow_begin(plan->trace);
    ortwin_status status = meet_signature(frame, error);
    if (status)
        return status;
    ow_end(plan->trace, OW_PHASE_shapes, begin);
    begin = ow_begin(plan->trace);
    for (size_t k = 0; k < plan->input_count; k++)
        frame->base[plan->inputs[k]] = frame->inputs[k].data;
    status = take_outputs(frame, output, user, error);
    if (status)
        return status;
    ow_end(plan->trace, OW_PHASE_outputs, begin);
    begin = ow_begin(plan->trace);
    ow_fpstate caller = ow_fpstate_enter();
    for (size_t k = 0; k < frame->signature->segment_count && !status; k++)
        status = run_segment(frame, &frame->signature->segments[k], error);
    ow_fpstate_leave(caller);
    if (status)
        return status;
    copy_outputs(frame);
    ow_end(plan->trace, OW_PHASE_kernels, begin);
    ow_count(&frame->tally, OW_runs, 1);
    ow_count(&frame->tally, OW_nodes_executed, plan->node_count - plan->part_count);
    return ORTWIN_OK;
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
    uint64_t begin = ow_begin(plan->trace);
    ow_frame *frame = ow_plan_enter(plan);
    if (!frame)
        return ow_no_memory(error);
    if (input_count)
        memcpy(frame->inputs, inputs, input_count * sizeof *inputs);
    ortwin_status status = ow_plan_execute(frame, host, output, user, error);
    ow_plan_leave(frame);
    ow_end(plan->trace, OW_PHASE_run, begin);
    return status;
}
