/* What the files of this folder share. They translate between ONNX Runtime and the plan; they compute nothing. */
#ifndef ORTWIN_ORT_EP_H
#define ORTWIN_ORT_EP_H

#include "ort/abi.h"
#include "ortwin.h"
#include "run/counters.h"
#include "run/ops.h"
#include "run/plan.h"
#include "run/trace.h"

#include <stdio.h>

/* API versions of ONNX Runtime this code knows; 23 is the first that describes graphs to plugins as they are read here. */
enum { OW_API_OLDEST = 23, OW_API_NEWEST = 30, OW_API_SHAPES = 24 /* brought the shape reference and HasShape */ };

/* The host as someone calls it: its tables, and the tally where his calls are counted. */
typedef struct ow_host {
    const OrtApi *api;
    const OrtEpApi *ep_api;
    uint32_t version;
    bool shape_reference; /* one call reads type and shape; without it five do */
    ow_tally *tally;
} ow_host;

/* The one way to call ONNX Runtime: counted, by function. table: api or ep_api. arguments in parentheses. */
#define ORT(host, table, function, arguments) \
    (ow_count((host)->tally, OW_ort_##function, 1), (host)->table->function arguments)

#define ORT_TRY(call)             \
    do {                          \
        OrtStatus *failed = call; \
        if (failed)               \
            return failed;        \
    } while (0)

typedef struct ow_factory {
    OrtEpFactory base; /* first, so that the pointers convert */
    ow_host host;
    ow_tally tally;
    char *name; /* the name it was registered by: also the EP's */
} ow_factory;

typedef struct ow_ep {
    OrtEp base;
    ow_factory *factory;
    ow_host host;
    ow_tally tally;
    ow_trace *trace; /* NULL unless asked for */
    const OrtLogger *logger;
    const char *isa;             /* the instruction set its plans run on */
    int32_t threads;             /* option "threads"; 0: whatever the session's pool has */
    _Atomic uint32_t pool_state; /* what was learned of that pool, for all groups of the session */
    uint64_t pack_bytes;         /* option "pack_bytes" */
    bool pack_bytes_given;
    bool node_by_node;  /* option "group": one claim per node instead of the largest groups */
    bool nbits_exact;   /* option "nbits_level" is below 4: MatMulNBits nodes at 4 are computed as at 0 */
    size_t group_count; /* claims so far, over all graphs */
    FILE *report;       /* option "report"; NULL without */
} ow_ep;

/* A node of ONNX Runtime's graph in our terms. Strings and value infos are borrowed from the graph. */
typedef struct ow_node_info {
    ortwin_node node; /* node.inputs is NULL: operands are values here, not slots */
    const OrtValueInfo **inputs, **outputs;
    ortwin_attr *attrs;
    void *memory;
} ow_node_info;

/* A node that ONNX Runtime offers. */
typedef struct ow_offer {
    const OrtNode *from;
    ow_node_info info;
    const OrtValueInfo **captured; /* what the graphs within it read of this graph */
    size_t captured_count;
    bool taken;         /* by another provider: not offered to us */
    bool claimed;       /* can be executed exactly as written; `rule` says why not */
    ortwin_error rule;  /* text is empty where there is none */
    size_t group;       /* claimed: its group, 0 to group_count - 1 */
    const char *kernel; /* claimed: which */
    int32_t dtype;
    ow_inner inner; /* claimed */
} ow_offer;

OrtStatus *ow_read_node(const ow_host *host, ow_counter phase, const OrtNode *node, ow_node_info *info);
void ow_free_node(ow_node_info *info);
/* What is known of a value; NULL: a missing operand. Type -1: not a tensor of a type we number. dims: the operand's, to
 * be freed by the caller whatever is returned. */
OrtStatus *ow_read_operand(const ow_host *host, ow_counter phase, const OrtValueInfo *value, ortwin_operand *operand,
                           int64_t **dims);
/* The tensor of an OrtValue; its data is borrowed. room: gives memory for a shape of this rank, where the host has to
 * copy it; NULL if there is none. */
typedef int64_t *ow_room_fn(void *user, size_t rank);
OrtStatus *ow_read_tensor(const ow_host *host, const OrtValue *value, ow_room_fn *room, void *user,
                          ortwin_tensor *tensor);

/* Puts claimed offers, which are in topological order, into the fewest groups such that no path leaves a group and comes
 * back to it, and groups do not wait for one another in a circle either. Returns their number; false if there is no
 * memory. */
bool ow_make_groups(ow_tally *tally, ow_offer *offers, size_t count, size_t *group_count);

OrtStatus *ow_get_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *info);
OrtStatus *ow_compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                      OrtNodeComputeInfo **infos, OrtNode **contexts);
void ow_release_compute_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count);
/* A compute info that runs plan and owns it; NULL when there is no memory. ONNX Runtime frees it before the ep. */
OrtNodeComputeInfo *ow_new_compute_info(ow_ep *ep, ortwin_plan *plan);
void ow_free_compute_info(OrtNodeComputeInfo *info);

/* An error for ONNX Runtime, from a status of ours. */
OrtStatus *ow_status(const ow_host *host, ortwin_status status, const ortwin_error *error);
OrtStatus *ow_no_memory_status(const ow_host *host);

#endif
