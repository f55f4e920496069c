/* Frames: the scratch of one call at a time. A plan makes one when all it has are busy and keeps it, so that as many
 * calls at once as there have been before need no heap. The list only grows; to take a frame is one atomic exchange. */
#include "run/parts.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static ow_frame *new_frame(ortwin_plan *plan) {
    /* Cannot overflow: the plan itself holds larger entries in as many places. */
    ow_frame *frame;
    size_t inputs = plan->input_count * (sizeof(ortwin_tensor) + OW_STACKED_RANK * sizeof(int64_t));
    size_t outputs = plan->output_count * (sizeof *frame->written + sizeof *frame->by_address);
    frame = calloc(1, sizeof *frame + inputs + plan->slot_count * sizeof *frame->base + outputs);
    if (!frame)
        return NULL;
    ow_tally_open(&frame->tally, 0);
    ow_count(&frame->tally, OW_frames, 1);
    ow_count(&frame->tally, OW_allocations_run, 1);
    frame->plan = plan;
    frame->inputs = (ortwin_tensor *)(void *)(frame + 1);
    frame->dims = (int64_t *)(void *)(frame->inputs + plan->input_count);
    frame->base = (unsigned char **)(void *)(frame->dims + plan->input_count * OW_STACKED_RANK);
    frame->written = frame->base + plan->slot_count;
    frame->by_address = (size_t *)(void *)(frame->written + plan->output_count);
    for (size_t s = 0; s < plan->slot_count; s++)
        frame->base[s] = plan->slots[s].constant.data;
    atomic_init(&frame->busy, 1);
    frame->next = atomic_load_explicit(&plan->frames, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&plan->frames, &frame->next, frame, memory_order_release,
                                                  memory_order_relaxed)) {
    }
    return frame;
}

ow_frame *ow_plan_enter(const ortwin_plan *sealed) {
    ortwin_plan *plan = (ortwin_plan *)(uintptr_t)sealed; /* its list of frames grows, by atomic steps */
    for (ow_frame *frame = atomic_load_explicit(&plan->frames, memory_order_acquire); frame; frame = frame->next)
        if (!atomic_load_explicit(&frame->busy, memory_order_relaxed) &&
            !atomic_exchange_explicit(&frame->busy, 1, memory_order_acquire))
            return frame;
    return new_frame(plan);
}

void ow_plan_leave(ow_frame *frame) { atomic_store_explicit(&frame->busy, 0, memory_order_release); }

ortwin_tensor *ow_frame_inputs(ow_frame *frame) { return frame->inputs; }

int64_t *ow_frame_dims(ow_frame *frame, size_t k, size_t rank) {
    if (rank <= OW_STACKED_RANK)
        return frame->dims + k * OW_STACKED_RANK;
    if (rank > frame->long_room) { /* for all inputs at once: such ranks are rare, and soon known */
        size_t inputs = frame->plan->input_count;
        int64_t **longer = ow_alloc(&frame->tally, OW_allocations_run, inputs, sizeof *longer + rank * sizeof **longer);
        if (!longer)
            return NULL;
        for (size_t j = 0; j < inputs; j++) {
            longer[j] = (int64_t *)(void *)(longer + inputs) + j * rank;
            if (frame->long_dims)
                memcpy(longer[j], frame->long_dims[j], frame->long_room * sizeof **longer);
            if (j < k && frame->inputs[j].rank > OW_STACKED_RANK)
                frame->inputs[j].dims = longer[j];
        }
        free(frame->long_dims);
        frame->long_dims = longer;
        frame->long_room = rank;
    }
    return frame->long_dims[k];
}

ow_tally *ow_frame_tally(ow_frame *frame) { return &frame->tally; }

/* There is no memory for intermediates: which is the largest? */
static ortwin_status no_arena(const ow_frame *frame, const ow_signature *signature, ortwin_error *error) {
    const ortwin_plan *plan = frame->plan;
    const ow_node *largest = NULL;
    for (size_t k = 0; k < plan->node_count; k++) {
        int32_t slot = plan->nodes[k].output;
        if (signature->offsets[slot] != SIZE_MAX &&
            (!largest || signature->values[slot].bytes > signature->values[largest->output].bytes))
            largest = &plan->nodes[k];
    }
    if (!largest)
        return ow_no_memory(error);
    return ow_fail(error, ORTWIN_OUT_OF_MEMORY,
                   "%s: no memory for its output of %zu bytes; the intermediates take %zu together", largest->label,
                   signature->values[largest->output].bytes, signature->arena_bytes);
}

ortwin_status ow_frame_adopt(ow_frame *frame, ow_signature *signature, ortwin_error *error) {
    if (signature->arena_bytes > frame->arena_room) {
        size_t bytes = (signature->arena_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        unsigned char *arena = aligned_alloc(ALIGNMENT, bytes);
        if (!arena) {
            ortwin_status status = no_arena(frame, signature, error);
            ow_drop_signature(signature);
            return status;
        }
        ow_count(&frame->tally, OW_allocations_run, 1);
        ow_count(&frame->tally, OW_arena_bytes, bytes);
        free(frame->arena);
        frame->arena = arena;
        frame->arena_room = bytes;
    }
    for (size_t s = 0; s < frame->plan->slot_count; s++)
        if (signature->offsets[s] != SIZE_MAX)
            frame->base[s] = frame->arena + signature->offsets[s];
    ow_drop_signature(frame->signature);
    frame->signature = signature;
    return ORTWIN_OK;
}

void ow_free_frames(ortwin_plan *plan) {
    ow_frame *frame = atomic_load_explicit(&plan->frames, memory_order_acquire);
    while (frame) {
        ow_frame *next = frame->next;
        ow_drop_signature(frame->signature);
        ow_tally_close(&frame->tally);
        free(frame->arena);
        free(frame->long_dims);
        free(frame);
        frame = next;
    }
}
