/* Where intermediates lie: one arena, planned by liveness.
 *
 * A value that is read in its own segment only is never whole: it gets the buffer of one piece, alive from the step that
 * writes it to the last that reads it. Where several threads run pieces at once each has one of its own, and none is
 * given away within the segment, as one thread may be at its first step while another is at the last. Any other is whole
 * and alive from the start of the segment that writes it to the end of the last one that reads it, since every piece
 * comes by all steps of a segment. A value takes over the buffer of an operand that dies with the step, where the two go
 * through it in step: kernels allow y == x. What follows a product is computed tile by tile, in values that are whole,
 * and takes over no operand of the product, which other tiles may still read. */
#include "run/parts.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct buffer {
    size_t bytes, start, end; /* steps, both included */
    size_t offset;
    size_t next;    /* of those that start at the same step */
    int32_t holder; /* the slot that lies here last */
    int local;      /* of one piece */
} buffer;

typedef struct planner {
    const ortwin_plan *plan;
    ow_signature *signature;
    size_t *segment_of; /* per step */
    size_t *buffer_of;  /* per slot, NONE for what is not in the arena */
    buffer *buffers;
    size_t buffer_count;
    size_t *starting; /* per step: the first buffer that starts there */
    size_t *live;     /* buffers by offset */
    size_t live_count;
    uint64_t in_place;
} planner;

#define NONE SIZE_MAX

static int is_intermediate(const ow_slot *s) { return s->from == FROM_NODE && s->output < 0; }

static int reads(const ow_node *node, uint32_t slot) {
    for (size_t k = 0; k < node->input_count; k++)
        if (node->inputs[k] == (int32_t)slot)
            return 1;
    return 0;
}

/* The operand of the step whose buffer its output may take over, NONE if there is none. */
static size_t heir(const planner *p, size_t step, size_t bytes, int local) {
    const ow_step *s = &p->signature->steps[step];
    const ow_segment *own = &p->signature->segments[p->segment_of[step]];
    const ow_node *product = ow_begins_whole(p->signature, own) ? p->signature->steps[own->first].node : NULL;
    const ow_place operands[2] = {s->x, s->b};
    for (size_t k = 0; k < (s->binary ? 2u : 1u); k++) {
        const ow_slot *slot = &p->plan->slots[operands[k].slot];
        size_t at = p->buffer_of[operands[k].slot];
        if (!operands[k].item || !is_intermediate(slot) || slot->last_use != step ||
            (product && reads(product, operands[k].slot)))
            continue;
        const buffer *b = &p->buffers[at];
        if (b->holder == (int32_t)operands[k].slot && b->local == local && b->bytes == bytes)
            return at;
    }
    return NONE;
}

/* Gives the output of each step a buffer. */
static void assign(planner *p) {
    const ortwin_plan *plan = p->plan;
    for (size_t step = 0; step < plan->node_count; step++) {
        int32_t y = plan->nodes[step].output;
        const ow_slot *slot = &plan->slots[y];
        const ow_segment *own = &p->signature->segments[p->segment_of[step]];
        if (!is_intermediate(slot))
            continue;
        size_t last = slot->read ? slot->last_use : step;
        int local = p->segment_of[last] == p->segment_of[step] && !ow_begins_whole(p->signature, own);
        size_t lanes = ow_lanes(own), lane = own->piece * p->signature->steps[step].item;
        size_t bytes = local ? lanes * lane : p->signature->values[y].bytes;
        size_t at = heir(p, step, bytes, local);
        if (at == NONE) {
            at = p->buffer_count++;
            p->buffers[at] = (buffer){bytes, local ? step : own->first, 0, 0, 0, 0, local};
            p->buffers[at].next = p->starting[p->buffers[at].start];
            p->starting[p->buffers[at].start] = at;
        } else
            p->in_place++;
        p->buffers[at].holder = y;
        p->buffers[at].end = local && lanes == 1 ? last : p->signature->segments[p->segment_of[last]].end - 1;
        p->buffer_of[y] = at;
    }
}

/* The lowest gap between live buffers that has room. */
static ortwin_status place(planner *p, size_t at, ortwin_error *error) {
    size_t offset = 0, k = 0;
    buffer *b = &p->buffers[at];
    size_t rounded = (b->bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1), top;
    for (; k < p->live_count; k++) {
        const buffer *other = &p->buffers[p->live[k]];
        if (other->offset >= offset && other->offset - offset >= rounded)
            break;
        offset = other->offset + ((other->bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    }
    if (__builtin_add_overflow(offset, rounded, &top) || top > PTRDIFF_MAX)
        return ow_fail(error, ORTWIN_OVERFLOW, "the intermediates do not fit in memory");
    memmove(&p->live[k + 1], &p->live[k], (p->live_count - k) * sizeof *p->live);
    p->live[k] = at;
    p->live_count++;
    b->offset = offset;
    if (top > p->signature->arena_bytes)
        p->signature->arena_bytes = top;
    return ORTWIN_OK;
}

static ortwin_status place_all(planner *p, ortwin_error *error) {
    for (size_t step = 0; step < p->plan->node_count; step++) {
        for (size_t at = p->starting[step]; at != NONE; at = p->buffers[at].next) {
            ortwin_status status = place(p, at, error);
            if (status)
                return status;
        }
        size_t kept = 0;
        for (size_t k = 0; k < p->live_count; k++)
            if (p->buffers[p->live[k]].end > step)
                p->live[kept++] = p->live[k];
        p->live_count = kept;
    }
    return ORTWIN_OK;
}

/* Buffers of one piece do not move with the pieces, but there is one for each lane. */
static void fix_places(const planner *p) {
    for (size_t step = 0; step < p->plan->node_count; step++) {
        ow_step *s = &p->signature->steps[step];
        ow_place *places[3] = {&s->x, &s->b, &s->y};
        for (size_t k = 0; k < 3; k++) {
            size_t at = p->buffer_of[places[k]->slot];
            if (at == NONE || !p->buffers[at].local)
                continue;
            places[k]->item = 0;
            places[k]->lane = p->buffers[at].bytes / ow_lanes(&p->signature->segments[p->segment_of[step]]);
        }
    }
}

ortwin_status ow_plan_arena(const ortwin_plan *plan, ow_signature *signature, ow_tally *tally, ortwin_error *error) {
    size_t steps = plan->node_count, slots = plan->slot_count;
    planner p = {.plan = plan, .signature = signature};
    p.buffers = ow_alloc(tally, OW_allocations_run, steps, sizeof *p.buffers);
    p.segment_of = ow_alloc(tally, OW_allocations_run, 3 * steps + slots, sizeof *p.segment_of);
    ortwin_status status = p.buffers && p.segment_of ? ORTWIN_OK : ow_no_memory(error);
    if (!status) {
        p.starting = p.segment_of + steps;
        p.live = p.starting + steps;
        p.buffer_of = p.live + steps;
        for (size_t k = 0; k < steps; k++)
            p.starting[k] = NONE;
        for (size_t s = 0; s < slots; s++)
            p.buffer_of[s] = NONE;
        for (size_t k = 0; k < signature->segment_count; k++)
            for (size_t step = signature->segments[k].first; step < signature->segments[k].end; step++)
                p.segment_of[step] = k;
        assign(&p);
        status = place_all(&p, error);
    }
    if (!status) {
        for (size_t s = 0; s < slots; s++)
            signature->offsets[s] = p.buffer_of[s] == NONE ? SIZE_MAX : p.buffers[p.buffer_of[s]].offset;
        fix_places(&p);
        ow_count(tally, OW_values_in_place, p.in_place);
    }
    free(p.buffers);
    free(p.segment_of);
    return status;
}
