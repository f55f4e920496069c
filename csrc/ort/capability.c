/* Claims: one group per node that the plan can execute exactly as written. */
#include "ort/ep.h"

#include "run/ops.h"

#include <stdlib.h>
#include <string.h>

/* Compile knows values by name, and the host's names end at a NUL for us though not for it: two values of the node that
 * look the same to us must not be taken for one. */
static OrtStatus *test_names(const OrtApi *api, const ow_node_info *info, ortwin_error *rule) {
    size_t inputs = info->node.input_count,
           count = inputs + info->node.output_count; /* outputs lie behind the inputs */
    for (size_t j = 0; j < count; j++)
        for (size_t k = 0; k < j; k++) {
            const char *first, *second;
            if (!info->inputs[j] || !info->inputs[k] || info->inputs[j] == info->inputs[k])
                continue;
            ORT_TRY(api->GetValueInfoName(info->inputs[j], &first));
            ORT_TRY(api->GetValueInfoName(info->inputs[k], &second));
            if (strcmp(first, second) == 0)
                ow_fail(rule, ORTWIN_UNSUPPORTED, "two values of the node are both called '%.160s' up to a NUL", first);
        }
    return NULL;
}

/* The claim test. rule.text is empty when the node is claimed, else the first rule that declined it. */
static OrtStatus *test_node(const ow_ep *ep, const ow_node_info *info, ortwin_error *rule) {
    ortwin_operand operands[OW_MAX_INPUTS] = {{0, -1, NULL}};
    int64_t dims[OW_MAX_INPUTS][OW_DIMS];
    for (size_t k = 0; k < info->node.input_count && k < OW_MAX_INPUTS; k++)
        ORT_TRY(ow_read_operand(ep->factory->api, info->inputs[k], dims[k], &operands[k]));
    ow_resolved resolved;
    rule->text[0] = '\0';
    if (ow_resolve(&(ow_node_view){&info->node, operands}, &resolved, rule))
        return NULL;
    return test_names(ep->factory->api, info, rule);
}

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

/* One JSON object a line: {"graph","node","domain","op","since_version","isa","claimed","reason"}. */
static void write_report(FILE *file, const char *isa, const char *graph, const ortwin_node *node, const char *reason) {
    fputs("{\"graph\": ", file);
    write_json_string(file, graph);
    fputs(", \"node\": ", file);
    write_json_string(file, node->name);
    fputs(", \"domain\": ", file);
    write_json_string(file, node->domain);
    fputs(", \"op\": ", file);
    write_json_string(file, node->op_type);
    fprintf(file, ", \"since_version\": %d, \"isa\": \"%s\", \"claimed\": %s, \"reason\": ", (int)node->since_version,
            isa, *reason ? "false" : "true");
    write_json_string(file, reason);
    fputs("}\n", file);
}

/* C9: a declined node has a reason the user can read: in the session's log at level INFO, and in the report. */
static OrtStatus *tell(const ow_ep *ep, const char *graph, const ortwin_node *node, const char *reason) {
    const OrtApi *api = ep->factory->api;
    if (ep->report)
        write_report(ep->report, ep->isa, graph, node, reason);
    int level = ORT_LOGGING_INFO + 1;
    if (ep->logger)
        ORT_TRY(api->Logger_GetLoggingSeverityLevel(ep->logger, &level));
    if (!*reason || level > ORT_LOGGING_INFO)
        return NULL;
    char text[1024];
    snprintf(text, sizeof text, "%s declines node '%s' (%s): %s", ep->factory->name, node->name, node->op_type, reason);
    return api->Logger_LogMessage(ep->logger, ORT_LOGGING_INFO, text, "ortwin", 0, "GetCapability");
}

static OrtStatus *claim(const ow_ep *ep, const char *graph, const OrtNode *node, OrtEpGraphSupportInfo *support) {
    const OrtApi *api = ep->factory->api;
    const char *owner = NULL;
    ORT_TRY(api->Node_GetEpName(node, &owner));
    if (owner && *owner)
        return NULL; /* already another provider's */
    ow_node_info info;
    ORT_TRY(ow_read_node(api, node, &info));
    ortwin_error rule;
    OrtStatus *status = test_node(ep, &info, &rule);
    if (!status)
        status = tell(ep, graph, &info.node, rule.text);
    ow_free_node(&info);
    if (status || rule.text[0])
        return status;
    /* Constants are copied at Compile; the host need not pass them to every Run. */
    OrtNodeFusionOptions options = {.ort_version_supported = ep->factory->version, .drop_constant_initializers = true};
    return ep->factory->ep_api->EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, &options);
}

OrtStatus *ow_get_capability(OrtEp *base, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
    ow_ep *ep = (ow_ep *)base;
    const OrtApi *api = ep->factory->api;
    const char *name = NULL;
    size_t count = 0;
    ORT_TRY(api->Graph_GetName(graph, &name));
    ORT_TRY(api->Graph_GetNumNodes(graph, &count));
    if (!count)
        return NULL;
    const OrtNode **nodes = calloc(count, sizeof *nodes);
    if (!nodes)
        return api->CreateStatus(ORT_FAIL, "ortwin: out of memory");
    OrtStatus *status = api->Graph_GetNodes(graph, nodes, count);
    for (size_t k = 0; k < count && !status; k++)
        status = claim(ep, name, nodes[k], support);
    free(nodes);
    /* No reason to compute elsewhere, so only told. */
    if (ep->report && fflush(ep->report) != 0 && ep->logger && !status)
        status = api->Logger_LogMessage(ep->logger, ORT_LOGGING_WARNING, "ortwin: the report can't be written",
                                        "ortwin", 0, "GetCapability");
    return status;
}
