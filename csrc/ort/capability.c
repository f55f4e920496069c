/* Claims: one group per node that the plan can execute exactly as written. */
#include "ort/ep.h"

#include "run/ops.h"

#include <stdlib.h>
#include <string.h>

/* The claim test. rule.text is empty when the node is claimed, else the first rule that declined it. */
static OrtStatus *test_node(const ow_ep *ep, const ow_node_info *info, ortwin_error *rule) {
    ortwin_operand operands[OW_MAX_INPUTS] = {{0, -1, NULL}};
    for (size_t k = 0; k < info->node.input_count && k < OW_MAX_INPUTS; k++)
        ORT_TRY(ow_read_operand(ep->factory->api, info->inputs[k], &operands[k]));
    ow_resolved resolved;
    rule->text[0] = '\0';
    ow_resolve(&(ow_node_view){&info->node, operands}, &resolved, rule);
    return NULL;
}

static void write_json_string(FILE *file, const char *text) {
    putc('"', file);
    for (const char *c = text ? text : ""; *c; c++) {
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
    if (ep->report)
        fflush(ep->report);
    return status;
}
