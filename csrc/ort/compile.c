/* From a claimed group to a plan. Everything is copied: the graph dies when Compile returns. */
#include "ort/ep.h"

#include "run/ops.h"

#include <stdlib.h>
#include <string.h>

/* Values by name, the only identity that the group and its fused node share. */
typedef struct names {
    const char **names;
    int32_t *slots;
    size_t count, room;
} names;

typedef struct builder {
    const OrtApi *api;
    ortwin_plan *plan;
    names known;
    ortwin_error error;
} builder;

static OrtStatus *check(builder *b, ortwin_status status) {
    return status ? ow_status(b->api, status, &b->error) : NULL;
}

static OrtStatus *remember(builder *b, const char *name, int32_t slot) {
    names *known = &b->known;
    if (known->count == known->room) {
        size_t room = known->room ? 2 * known->room : 16;
        const char **more_names = realloc(known->names, room * sizeof *more_names);
        if (more_names)
            known->names = more_names;
        int32_t *more_slots = realloc(known->slots, room * sizeof *more_slots);
        if (more_slots)
            known->slots = more_slots;
        if (!more_names || !more_slots)
            return b->api->CreateStatus(ORT_FAIL, "ortwin: out of memory");
        known->room = room;
    }
    known->names[known->count] = name;
    known->slots[known->count++] = slot;
    return NULL;
}

static int32_t find(const names *known, const char *name) {
    for (size_t k = 0; k < known->count; k++)
        if (strcmp(known->names[k], name) == 0)
            return known->slots[k];
    return -1;
}

static OrtStatus *is_constant(const OrtApi *api, const OrtValueInfo *value, bool *constant) {
    *constant = false; /* an initializer that is also a graph input can be overridden: not constant */
    return api->ValueInfo_IsConstantInitializer(value, constant);
}

static OrtStatus *add_constant(builder *b, const OrtValueInfo *value, int32_t *slot) {
    const OrtValue *initializer = NULL;
    ortwin_tensor tensor = {0};
    ORT_TRY(b->api->ValueInfo_GetInitializerValue(value, &initializer));
    ORT_TRY(ow_read_tensor(b->api, initializer, &tensor));
    return check(b, ortwin_plan_constant(b->plan, &tensor, slot, &b->error));
}

/* The slot of a node's operand: known by name, or a constant seen for the first time. */
static OrtStatus *find_operand(builder *b, const OrtValueInfo *value, int32_t *slot) {
    *slot = -1;
    if (!value)
        return NULL; /* a missing optional input */
    const char *name = NULL;
    ORT_TRY(b->api->GetValueInfoName(value, &name));
    *slot = find(&b->known, name);
    if (*slot >= 0)
        return NULL;
    bool constant;
    ORT_TRY(is_constant(b->api, value, &constant));
    if (!constant) {
        ow_fail(&b->error, ORTWIN_MISUSE, "value '%s' is neither an input of the group nor a constant", name);
        return ow_status(b->api, ORTWIN_MISUSE, &b->error);
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
        ORT_TRY(is_constant(b->api, value, &constant));
        if (constant)
            continue;
        ORT_TRY(b->api->GetValueInfoName(value, &name));
        ORT_TRY(ow_read_operand(b->api, value, NULL, &operand));
        operand.rank = -1; /* shapes are checked by the op at Run */
        ORT_TRY(check(b, ortwin_plan_input(b->plan, &operand, &slot, &b->error)));
        ORT_TRY(remember(b, name, slot));
    }
    return NULL;
}

static OrtStatus *add_node(builder *b, const OrtNode *from) {
    ow_node_info info;
    ORT_TRY(ow_read_node(b->api, from, &info));
    OrtStatus *status = NULL;
    int32_t inputs[OW_MAX_INPUTS], output;
    if (info.node.input_count > OW_MAX_INPUTS || info.node.output_count != 1) /* the claim test said so */
        status = b->api->CreateStatus(ORT_FAIL, "ortwin: a node changed between claim and Compile");
    for (size_t k = 0; k < info.node.input_count && !status; k++)
        status = find_operand(b, info.inputs[k], &inputs[k]);
    info.node.inputs = inputs;
    if (!status)
        status = check(b, ortwin_plan_node(b->plan, &info.node, &output, &b->error));
    const char *name = NULL;
    if (!status)
        status = b->api->GetValueInfoName(info.outputs[0], &name);
    if (!status)
        status = remember(b, name, output);
    ow_free_node(&info);
    return status;
}

static OrtStatus *add_nodes(builder *b, const OrtGraph *graph) {
    size_t count = 0;
    ORT_TRY(b->api->Graph_GetNumNodes(graph, &count));
    const OrtNode **nodes = calloc(count ? count : 1, sizeof *nodes);
    if (!nodes)
        return b->api->CreateStatus(ORT_FAIL, "ortwin: out of memory");
    OrtStatus *status = b->api->Graph_GetNodes(graph, nodes, count); /* in topological order */
    for (size_t k = 0; k < count && !status; k++)
        status = add_node(b, nodes[k]);
    free(nodes);
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
    ORT_TRY(ow_read_node(b->api, fused, &info));
    OrtStatus *status = add_inputs(b, &info);
    if (!status)
        status = add_nodes(b, graph);
    if (!status)
        status = add_outputs(b, &info);
    ow_free_node(&info);
    return status;
}

static OrtStatus *compile_one(ow_ep *ep, const OrtGraph *graph, const OrtNode *fused, OrtNodeComputeInfo **info) {
    builder b = {.api = ep->factory->api};
    ORT_TRY(check(&b, ortwin_plan_new(ep->isa, ep->threads, &b.plan, &b.error)));
    OrtStatus *status = build(&b, graph, fused);
    free(b.known.names);
    free(b.known.slots);
    if (!status && !(*info = ow_new_compute_info(ep, b.plan)))
        status = b.api->CreateStatus(ORT_FAIL, "ortwin: out of memory");
    if (status)
        ortwin_plan_free(b.plan);
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
