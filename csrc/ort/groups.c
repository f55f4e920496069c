/* Which claimed nodes form a group.
 *
 * ONNX Runtime fuses a group into one node, so no path may leave the group and come back; it drops all claims of a graph
 * in which one does, with no more than a line in its log. The depth of a node is the number of times a path to it can
 * change from claimed nodes to others. Nodes of one depth form a group: a path that leaves it only leads to greater
 * depths. And no two groups could be one, since each node of the deeper one is there because of such a path. */
#include "ort/ep.h"

#include <stdlib.h>

typedef struct producer {
    const OrtValueInfo *value;
    size_t node;
} producer;

static int by_value(const void *a, const void *b) {
    uintptr_t p = (uintptr_t)((const producer *)a)->value, q = (uintptr_t)((const producer *)b)->value;
    return (p > q) - (p < q);
}

static size_t count_outputs(const ow_offer *offers, size_t count) {
    size_t total = 0;
    for (size_t k = 0; k < count; k++)
        total += offers[k].info.node.output_count;
    return total;
}

/* The depth that a value asks of a node: that of its producer, or one more where a claimed node is read by another. */
static void deepen(const producer *made, size_t made_count, const ow_offer *offers, const size_t *depths, size_t reader,
                   const OrtValueInfo *value, size_t *depth) {
    const producer key = {value, 0};
    const producer *found = value ? bsearch(&key, made, made_count, sizeof *made, by_value) : NULL;
    if (!found || found->node >= reader)
        return;
    size_t asked = depths[found->node] + (offers[found->node].claimed && !offers[reader].claimed);
    if (asked > *depth)
        *depth = asked;
}

bool ow_make_groups(ow_tally *tally, ow_offer *offers, size_t count, size_t *group_count) {
    size_t room = count_outputs(offers, count), made_count = 0;
    producer *made = ow_alloc(tally, OW_allocations_claim, room, sizeof *made);
    size_t *depths = ow_alloc(tally, OW_allocations_claim, count, sizeof *depths);
    size_t *groups = ow_alloc(tally, OW_allocations_claim, count + 1, sizeof *groups); /* by depth, 1 more than it */
    bool enough = made && depths && groups;
    for (size_t k = 0; k < count && enough; k++)
        for (size_t j = 0; j < offers[k].info.node.output_count; j++)
            if (offers[k].info.outputs[j])
                made[made_count++] = (producer){offers[k].info.outputs[j], k};
    if (enough)
        qsort(made, made_count, sizeof *made, by_value);
    for (size_t k = 0; k < count && enough; k++) {
        for (size_t j = 0; j < offers[k].info.node.input_count; j++)
            deepen(made, made_count, offers, depths, k, offers[k].info.inputs[j], &depths[k]);
        for (size_t j = 0; j < offers[k].captured_count; j++)
            deepen(made, made_count, offers, depths, k, offers[k].captured[j], &depths[k]);
        if (!offers[k].claimed)
            continue;
        if (!groups[depths[k]])
            groups[depths[k]] = ++*group_count;
        offers[k].group = groups[depths[k]] - 1;
    }
    free(made);
    free(depths);
    free(groups);
    return enough;
}
