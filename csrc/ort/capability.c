/* Claims: the nodes that the plan can execute exactly as written, in groups as large as can be. */
#include "ort/ep.h"

#include <stdlib.h>
#include <string.h>

/* ---- what can be claimed ---- */

typedef struct shape_room {
    const ow_host *host;
    int64_t *dims;
} shape_room;

static int64_t *room_for_dims(void *user, size_t rank) {
    shape_room *r = user;
    return r->dims = ow_alloc(r->host->tally, OW_allocations_claim, rank, sizeof *r->dims);
}

/* A rule that the elements of a constant break shows now, so now is when the node is declined (C9). Few ops have any. */
static OrtStatus *inspect(const ow_host *host, ow_offer *offer, const ow_whole *node) {
    uint32_t inspected = ow_whole_inspected(node);
    for (size_t k = 0; inspected >> k; k++) {
        bool constant = false;
        const OrtValueInfo *value = inspected >> k & 1 ? offer->info.inputs[k] : NULL;
        if (value)
            ORT_TRY(ORT(host, api, ValueInfo_IsConstantInitializer, (value, &constant)));
        if (!constant)
            continue;
        const OrtValue *initializer = NULL;
        ortwin_tensor tensor = {0};
        const ortwin_tensor *inputs[OW_WHOLE_INPUTS] = {NULL};
        shape_room room = {host, NULL};
        ORT_TRY(ORT(host, api, ValueInfo_GetInitializerValue, (value, &initializer)));
        OrtStatus *status = ow_read_tensor(host, initializer, room_for_dims, &room, &tensor);
        inputs[k] = &tensor;
        offer->claimed = offer->claimed && !status && !ow_whole_inspect(node, inputs, &offer->rule);
        free(room.dims);
        ORT_TRY(status);
    }
    return NULL;
}

/* The claim test is the plan's own: rule.text is empty when the node is claimed, else the first rule that declined it. */
static OrtStatus *test_node(const ow_host *host, bool nbits_exact, ow_offer *offer) {
    ortwin_operand operands[OW_MAX_INPUTS] = {{0, -1, NULL}};
    int64_t *dims[OW_MAX_INPUTS] = {NULL};
    OrtStatus *status = NULL;
    for (size_t k = 0; k < offer->info.node.input_count && k < OW_MAX_INPUTS && !status; k++)
        status = ow_read_operand(host, OW_allocations_claim, offer->info.inputs[k], &operands[k], &dims[k]);
    ow_resolved resolved;
    if (!status && !ow_resolve(&(ow_node_view){&offer->info.node, operands, nbits_exact}, &resolved, &offer->rule)) {
        offer->rule.text[0] = '\0';
        offer->claimed = true;
        offer->kernel = ow_kernel_name(resolved.kernel);
        offer->dtype = resolved.dtype;
        if (resolved.op->shape == OW_SHAPE_WHOLE) {
            offer->inner = ow_whole_inner(&resolved.whole, operands);
            status = inspect(host, offer, &resolved.whole);
        }
    }
    for (size_t k = 0; k < OW_MAX_INPUTS; k++)
        free(dims[k]);
    return status;
}

static OrtStatus *read_captured(const ow_host *host, ow_offer *offer) {
    ORT_TRY(ORT(host, api, Node_GetNumImplicitInputs, (offer->from, &offer->captured_count)));
    if (!offer->captured_count)
        return NULL;
    size_t count = offer->captured_count;
    offer->captured = ow_alloc(host->tally, OW_allocations_claim, count, sizeof *offer->captured);
    if (!offer->captured)
        return ow_no_memory_status(host);
    return ORT(host, api, Node_GetImplicitInputs, (offer->from, offer->captured, count));
}

static OrtStatus *read_offer(const ow_host *host, bool nbits_exact, ow_offer *offer) {
    const char *owner = NULL;
    ORT_TRY(ORT(host, api, Node_GetEpName, (offer->from, &owner)));
    ORT_TRY(ow_read_node(host, OW_allocations_claim, offer->from, &offer->info));
    ORT_TRY(read_captured(host, offer));
    offer->taken = owner && *owner;
    return offer->taken ? NULL : test_node(host, nbits_exact, offer);
}

/* ---- names ---- */

typedef struct named {
    const OrtValueInfo *value;
    const char *name;
    ow_offer *user;
} named;

static int by_name(const void *a, const void *b) {
    const named *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    uintptr_t u = (uintptr_t)p->value, v = (uintptr_t)q->value;
    return order ? order : (u > v) - (u < v);
}

/* Compile knows values by name, and the host's names end at a NUL for us though not for it: two values that look the
 * same to us must not be taken for one. */
static OrtStatus *decline_ambiguous(const ow_host *host, ow_offer *offers, size_t count) {
    size_t room = 0, used = 0;
    for (size_t k = 0; k < count; k++)
        room += offers[k].info.node.input_count + offers[k].info.node.output_count;
    named *values = ow_alloc(host->tally, OW_allocations_claim, room, sizeof *values);
    if (!values)
        return ow_no_memory_status(host);
    OrtStatus *status = NULL;
    for (size_t k = 0; k < count; k++) {
        const ow_node_info *info = &offers[k].info;
        size_t own = info->node.input_count + info->node.output_count; /* outputs lie behind the inputs */
        for (size_t j = 0; j < own && offers[k].claimed && !status; j++) {
            if (!info->inputs[j])
                continue;
            values[used] = (named){info->inputs[j], NULL, &offers[k]};
            status = ORT(host, api, GetValueInfoName, (info->inputs[j], &values[used].name));
            used += !status;
        }
    }
    if (!status)
        qsort(values, used, sizeof *values, by_name);
    for (size_t first = 0, end; first < used && !status; first = end) {
        int differ = 0;
        for (end = first; end < used && strcmp(values[end].name, values[first].name) == 0; end++)
            differ |= values[end].value != values[first].value;
        for (size_t k = first; k < end && differ; k++) {
            values[k].user->claimed = false;
            ow_fail(&values[k].user->rule, ORTWIN_UNSUPPORTED, "two values are both called '%.160s' up to a NUL",
                    values[k].name);
        }
    }
    free(values);
    return status;
}

/* ---- telling ---- */

static void write_json_string(FILE *file, const char *text) {
    char clean[1024]; /* longer names are cut: the report is read by people */
    snprintf(clean, sizeof clean, "%s", text ? text : "");
    ow_make_utf8(clean);
    putc('"', file);
    for (const char *c = clean; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            fprintf(file, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            putc(*c, file);
    }
    putc('"', file);
}

static OrtStatus *count_constants(const ow_host *host, const ow_offer *offer, size_t *constants, size_t *present) {
    for (size_t k = 0; k < offer->info.node.input_count; k++) {
        bool constant = false;
        if (!offer->info.inputs[k])
            continue;
        ORT_TRY(ORT(host, api, ValueInfo_IsConstantInitializer, (offer->info.inputs[k], &constant)));
        *constants += constant;
        ++*present;
    }
    return NULL;
}

/* One JSON object a line: {"graph","node","domain","op","since_version","isa","claimed","reason"}, of a claimed node
 * {"group","kernel","constant_operands","runtime_operands"} too, and of a claimed product {"inner_dimensions"}. */
static OrtStatus *write_report(const ow_ep *ep, const char *graph, const ow_offer *offer) {
    FILE *file = ep->report;
    const ortwin_node *node = &offer->info.node;
    size_t constants = 0, present = 0;
    ORT_TRY(count_constants(&ep->host, offer, &constants, &present));
    fputs("{\"graph\": ", file);
    write_json_string(file, graph);
    fputs(", \"node\": ", file);
    write_json_string(file, node->name);
    fputs(", \"domain\": ", file);
    write_json_string(file, node->domain);
    fputs(", \"op\": ", file);
    write_json_string(file, node->op_type);
    fprintf(file, ", \"since_version\": %d, \"isa\": \"%s\", \"claimed\": %s, \"reason\": ", (int)node->since_version,
            ep->isa, offer->claimed ? "true" : "false");
    write_json_string(file, offer->rule.text);
    if (offer->claimed)
        fprintf(file, ", \"group\": %zu, \"kernel\": \"%s %s\", \"constant_operands\": %zu, \"runtime_operands\": %zu",
                ep->group_count + offer->group, offer->kernel, ow_dtype_name(offer->dtype), constants,
                present - constants);
    if (offer->claimed && offer->inner)
        fprintf(file, ", \"inner_dimensions\": \"%s\"",
                offer->inner == OW_INNER_EQUAL ? "known to be equal" : "checked by each run");
    fputs("}\n", file);
    return NULL;
}

/* C9: a declined node has a reason the user can read: in the session's log at level INFO, and in the report. */
static OrtStatus *tell(const ow_ep *ep, const char *graph, const ow_offer *offer) {
    const ow_host *host = &ep->host;
    const ortwin_node *node = &offer->info.node;
    if (ep->report)
        ORT_TRY(write_report(ep, graph, offer));
    int level = ORT_LOGGING_INFO + 1;
    if (ep->logger)
        ORT_TRY(ORT(host, api, Logger_GetLoggingSeverityLevel, (ep->logger, &level)));
    if (offer->claimed || level > ORT_LOGGING_INFO)
        return NULL;
    char text[1024];
    snprintf(text, sizeof text, "%s declines node '%s' (%s): %s", ep->factory->name, node->name, node->op_type,
             offer->rule.text);
    return ORT(host, api, Logger_LogMessage, (ep->logger, ORT_LOGGING_INFO, text, "ortwin", 0, "GetCapability"));
}

/* ---- claiming ---- */

static OrtStatus *claim_groups(ow_ep *ep, OrtEpGraphSupportInfo *support, const ow_offer *offers, size_t count,
                               size_t group_count) {
    const ow_host *host = &ep->host;
    /* Constants are copied at Compile; the host need not pass them to every Run. */
    OrtNodeFusionOptions options = {.ort_version_supported = host->version, .drop_constant_initializers = true};
    /* By group, in order: how many nodes come before, then where the next one goes. */
    size_t *next = ow_alloc(host->tally, OW_allocations_claim, group_count + 1, sizeof *next);
    const OrtNode **members = ow_alloc(host->tally, OW_allocations_claim, count, sizeof *members);
    OrtStatus *status = next && members ? NULL : ow_no_memory_status(host);
    if (!status) {
        for (size_t k = 0; k < count; k++)
            if (offers[k].claimed)
                next[offers[k].group + 1]++;
        for (size_t g = 0; g < group_count; g++)
            next[g + 1] += next[g];
        for (size_t k = 0; k < count; k++)
            if (offers[k].claimed)
                members[next[offers[k].group]++] = offers[k].from;
    }
    for (size_t g = 0, first = 0; g < group_count && !status; first = next[g], g++)
        status =
            ORT(host, ep_api, EpGraphSupportInfo_AddNodesToFuse, (support, members + first, next[g] - first, &options));
    free(next);
    free((void *)members);
    return status;
}

static OrtStatus *claim(ow_ep *ep, const OrtGraph *graph, const char *name, OrtEpGraphSupportInfo *support,
                        ow_offer *offers, size_t count) {
    const ow_host *host = &ep->host;
    const OrtNode **nodes = ow_alloc(host->tally, OW_allocations_claim, count, sizeof *nodes);
    size_t group_count = 0;
    if (!nodes)
        return ow_no_memory_status(host);
    OrtStatus *status = ORT(host, api, Graph_GetNodes, (graph, nodes, count)); /* in topological order */
    for (size_t k = 0; k < count && !status; k++) {
        offers[k].from = nodes[k];
        status = read_offer(host, ep->nbits_exact, &offers[k]);
    }
    free((void *)nodes);
    if (!status)
        status = decline_ambiguous(host, offers, count);
    if (status)
        return status;
    if (ep->node_by_node) {
        for (size_t k = 0; k < count; k++)
            if (offers[k].claimed)
                offers[k].group = group_count++;
    } else if (!ow_make_groups(host->tally, offers, count, &group_count))
        return ow_no_memory_status(host);
    for (size_t k = 0; k < count; k++)
        if (!offers[k].taken)
            ORT_TRY(tell(ep, name, &offers[k]));
    ORT_TRY(claim_groups(ep, support, offers, count, group_count));
    ep->group_count += group_count;
    return NULL;
}

OrtStatus *ow_get_capability(OrtEp *base, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
    ow_ep *ep = (ow_ep *)base;
    const ow_host *host = &ep->host;
    uint64_t begin = ow_begin(ep->trace);
    const char *name = NULL;
    size_t count = 0;
    ORT_TRY(ORT(host, api, Graph_GetName, (graph, &name)));
    ORT_TRY(ORT(host, api, Graph_GetNumNodes, (graph, &count)));
    if (!count)
        return NULL;
    ow_offer *offers = ow_alloc(host->tally, OW_allocations_claim, count, sizeof *offers);
    if (!offers)
        return ow_no_memory_status(host);
    OrtStatus *status = claim(ep, graph, name, support, offers, count);
    for (size_t k = 0; k < count; k++) {
        ow_free_node(&offers[k].info);
        free((void *)offers[k].captured);
    }
    free(offers);
    /* No reason to compute elsewhere, so only told. */
    if (ep->report && fflush(ep->report) != 0 && ep->logger && !status)
        status =
            ORT(host, api, Logger_LogMessage,
                (ep->logger, ORT_LOGGING_WARNING, "ortwin: the report can't be written", "ortwin", 0, "GetCapability"));
    ow_end(ep->trace, OW_PHASE_claim, begin);
    return status;
}
