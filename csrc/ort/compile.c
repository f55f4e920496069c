/* From a claimed group to a plan. Everything is copied: the graph dies when Compile returns. */
#include "ort/ep.h"

#include "run/ops.h"

#include <stdlib.h>
#include <string.h>

/* Values by name, the only identity that the group and its fused node share: an open hash table. */
typedef struct known {
    const char *name; /* NULL: free */
    int32_t slot;
} known;

typedef struct builder {
    const ow_host *host;
    ortwin_plan *plan;
    known *table;
    size_t room, count; /* room: a power of two, or 0 */
    int64_t *dims;      /* of the last constant, where the host has to copy them */
    ortwin_error error;
} builder;

static OrtStatus *check(builder *b, ortwin_status status) {
    return status ? ow_status(b->host, status, &b->error) : NULL;
}

/* The place of a name, or the free place where it would be (FNV-1a, linear probing). */
static known *find(const builder *b, const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    size_t at = (size_t)hash & (b->room - 1);
    while (b->table[at].name && strcmp(b->table[at].name, name) != 0)
        at = (at + 1) & (b->room - 1);
    return &b->table[at];
}

static OrtStatus *remember(builder *b, const char *name, int32_t slot) {
    if (2 * b->count >= b->room) {
        known *old = b->table;
        size_t old_room = b->room, room = old_room ? 2 * old_room : 32;
        known *larger = ow_alloc(b->host->tally, OW_allocations_build, room, sizeof *larger);
        if (!larger)
            return ow_no_memory_status(b->host);
        b->table = larger;
        b->room = room;
        for (size_t k = 0; k < old_room; k++)
            if (old[k].name)
                *find(b, old[k].name) = old[k];
        free(old);
    }
    known *place = find(b, name);
    b->count += place->name == NULL;
    *place = (known){name, slot};
    return NULL;
}

static OrtStatus *is_constant(const ow_host *host, const OrtValueInfo *value, bool *constant) {
    *constant = false; /* an initializer that is also a graph input can be overridden: not constant */
    return ORT(host, api, ValueInfo_IsConstantInitializer, (value, constant));
}

static int64_t *room_for_dims(void *user, size_t rank) {
    builder *b = user;
    free(b->dims);
    b->dims = ow_alloc(b->host->tally, OW_allocations_build, rank, sizeof *b->dims);
    return b->dims;
}

static OrtStatus *add_constant(builder *b, const OrtValueInfo *value, int32_t *slot) {
    const OrtValue *initializer = NULL;
    ortwin_tensor tensor = {0};
    ORT_TRY(ORT(b->host, api, ValueInfo_GetInitializerValue, (value, &initializer)));
    ORT_TRY(ow_read_tensor(b->host, initializer, room_for_dims, b, &tensor));
    return check(b, ortwin_plan_constant(b->plan, &tensor, slot, &b->error));
}

/* The slot of a node's operand: known by name, or a constant seen for the first time. */
static OrtStatus *find_operand(builder *b, const OrtValueInfo *value, int32_t *slot) {
    *slot = -1;
    if (!value)
        return NULL; /* a missing optional input */
    const char *name = NULL;
    ORT_TRY(ORT(b->host, api, GetValueInfoName, (value, &name)));
    const known *seen = b->room ? find(b, name) : NULL;
    if (seen && seen->name) {
        *slot = seen->slot;
        return NULL;
    }
    bool constant;
    ORT_TRY(is_constant(b->host, value, &constant));
    if (!constant) {
        ow_fail(&b->error, ORTWIN_MISUSE, "value '%s' is neither an input of the group nor a constant", name);
        return check(b, ORTWIN_MISUSE);
    }
    ORT_TRY(add_constant(b, value, slot));
    return remember(b, name, *slot);
}

/* The inputs of a Run, in the order of the fused node's inputs: what is constant is not passed to Run. */
static OrtStatus *add_inputs(builder *b, const ow_node_info *fused) {
    for (size_t k = 0; k < fused->node.input_count; k++) {
        const OrtValueInfo *value = fused->inputs[k];
        const char *name = NULL;
        bool constant;
        ortwin_operand operand;
        int32_t slot;
        if (!value)
            continue;
        ORT_TRY(is_constant(b->host, value, &constant));
        if (constant)
            continue;
        ORT_TRY(ORT(b->host, api, GetValueInfoName, (value, &name)));
        int64_t *dims;
        OrtStatus *status = ow_read_operand(b->host, OW_allocations_build, value, &operand, &dims);
        free(dims);
        ORT_TRY(status);
        operand.rank = -1; /* the host's business; shapes are checked by the op at Run */
        operand.dims = NULL;
        ORT_TRY(check(b, ortwin_plan_input(b->plan, &operand, &slot, &b->error)));
        ORT_TRY(remember(b, name, slot));
    }
    return NULL;
}

static OrtStatus *add_node(builder *b, const OrtNode *from) {
    ow_node_info info;
    ORT_TRY(ow_read_node(b->host, OW_allocations_build, from, &info));
    OrtStatus *status = NULL;
    int32_t inputs[OW_MAX_INPUTS], outputs[OW_MAX_OUTPUTS];
    if (info.node.input_count > OW_MAX_INPUTS || info.node.output_count > OW_MAX_OUTPUTS) /* the claim test said so */
        status = ORT(b->host, api, CreateStatus, (ORT_FAIL, "ortwin: a node changed between claim and Compile"));
    for (size_t k = 0; k < info.node.input_count && !status; k++)
        status = find_operand(b, info.inputs[k], &inputs[k]);
    info.node.inputs = inputs;
    if (!status)
        status = check(b, ortwin_plan_node(b->plan, &info.node, outputs, &b->error));
    for (size_t k = 0; k < info.node.output_count && !status; k++) {
        const char *name = NULL;
        if (!info.outputs[k])
            continue; /* left out */
        status = ORT(b->host, api, GetValueInfoName, (info.outputs[k], &name));
        if (!status)
            status = remember(b, name, outputs[k]);
    }
    ow_free_node(&info);
    return status;
}

static OrtStatus *add_nodes(builder *b, const OrtGraph *graph) {
    size_t count = 0;
    ORT_TRY(ORT(b->host, api, Graph_GetNumNodes, (graph, &count)));
    const OrtNode **nodes = ow_alloc(b->host->tally, OW_allocations_build, count, sizeof *nodes);
    if (!nodes)
        return ow_no_memory_status(b->host);
    OrtStatus *status = ORT(b->host, api, Graph_GetNodes, (graph, nodes, count)); /* in topological order */
    for (size_t k = 0; k < count && !status; k++)
        status = add_node(b, nodes[k]);
    free((void *)nodes);
    return status;
}

static OrtStatus *add_outputs(builder *b, const ow_node_info *fused) {
    for (size_t k = 0; k < fused->node.output_count; k++) {
        int32_t slot = -1;
        ORT_TRY(find_operand(b, fused->outputs[k], &slot));
        ORT_TRY(check(b, ortwin_plan_output(b->plan, slot, &b->error)));
    }
    return check(b, ortwin_plan_seal(b->plan, &b->error));
}

static OrtStatus *build(builder *b, const OrtGraph *graph, const OrtNode *fused) {
    ow_node_info info;
    ORT_TRY(ow_read_node(b->host, OW_allocations_build, fused, &info));
    OrtStatus *status = add_inputs(b, &info);
    if (!status)
        status = add_nodes(b, graph);
    if (!status)
        status = add_outputs(b, &info);
    ow_free_node(&info);
    return status;
}

static OrtStatus *compile_one(ow_ep *ep, const OrtGraph *graph, const OrtNode *fused, OrtNodeComputeInfo **info) {
    builder b = {.host = &ep->host};
    uint64_t begin = ow_begin(ep->trace);
    ORT_TRY(check(&b, ortwin_plan_new(ep->isa, ep->threads, &b.plan, &b.error)));
    ow_plan_share_trace(b.plan, ep->trace);
    OrtStatus *status = check(&b, ortwin_plan_nbits_level(b.plan, ep->nbits_exact ? 0 : 4, &b.error));
    if (!status)
        status = build(&b, graph, fused);
    free(b.table);
    free(b.dims);
    if (!status && !(*info = ow_new_compute_info(ep, b.plan)))
        status = ow_no_memory_status(b.host);
    if (status)
        ortwin_plan_free(b.plan);
    ow_end(ep->trace, OW_PHASE_build, begin);
    return status;
}

OrtStatus *ow_compile(OrtEp *base, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                      OrtNodeComputeInfo **infos, OrtNode **contexts) {
    (void)contexts; /* for exported compiled models, which there are none of */
    for (size_t k = 0; k < count; k++)
        infos[k] = NULL;
    for (size_t k = 0; k < count; k++) {
        OrtStatus *status = compile_one((ow_ep *)base, graphs[k], fused[k], &infos[k]);
        if (status) {
            ow_release_compute_infos(base, infos, k);
            return status;
        }
    }
    return NULL;
}

void ow_release_compute_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
    (void)ep;
    for (size_t k = 0; k < count; k++) {
        ow_free_compute_info(infos[k]);
        infos[k] = NULL;
    }
}
