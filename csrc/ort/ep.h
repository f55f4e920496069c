/* What the files of this folder share. They translate between ONNX Runtime and the plan; they compute nothing. */
#ifndef ORTWIN_ORT_EP_H
#define ORTWIN_ORT_EP_H

#include "ort/abi.h"
#include "ortwin.h"
#include "run/plan.h"

#include <stdio.h>

/* API versions of ONNX Runtime this code knows: 24 brought the shape reference, which Compute needs. */
enum { OW_API_OLDEST = 24, OW_API_NEWEST = 30 };

typedef struct ow_factory {
    OrtEpFactory base; /* first, so that the pointers convert */
    const OrtApi *api;
    const OrtEpApi *ep_api;
    uint32_t version;
    char *name; /* the name it was registered by: also the EP's */
} ow_factory;

typedef struct ow_ep {
    OrtEp base;
    ow_factory *factory;
    const OrtLogger *logger;
    const char *isa;             /* the instruction set its plans run on */
    int32_t threads;             /* option "threads"; 0: whatever the session's pool has */
    _Atomic uint32_t pool_state; /* what was learned of that pool, for all groups of the session */
    FILE *report;                /* option "report"; NULL without */
} ow_ep;

/* A node of ONNX Runtime's graph in our terms. Strings and value infos are borrowed from the graph. */
typedef struct ow_node_info {
    ortwin_node node; /* node.inputs is NULL: operands are values here, not slots */
    const OrtValueInfo **inputs, **outputs;
    ortwin_attr *attrs;
    void *memory;
} ow_node_info;

OrtStatus *ow_read_node(const OrtApi *api, const OrtNode *node, ow_node_info *info);
void ow_free_node(ow_node_info *info);
/* What is known of a value; NULL: a missing operand. Type -1: not a tensor of a type we number. room: for OW_DIMS
 * dimensions, which a longer shape does not get; may be NULL. */
enum { OW_DIMS = 16 };
OrtStatus *ow_read_operand(const OrtApi *api, const OrtValueInfo *value, int64_t *room, ortwin_operand *operand);
/* The tensor of an OrtValue; its data is borrowed. */
OrtStatus *ow_read_tensor(const OrtApi *api, const OrtValue *value, ortwin_tensor *tensor);

OrtStatus *ow_get_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *info);
OrtStatus *ow_compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                      OrtNodeComputeInfo **infos, OrtNode **contexts);
void ow_release_compute_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count);
/* A compute info that runs plan and owns it; NULL when there is no memory. ONNX Runtime frees it before the ep. */
OrtNodeComputeInfo *ow_new_compute_info(ow_ep *ep, ortwin_plan *plan);
void ow_free_compute_info(OrtNodeComputeInfo *info);

/* An error for ONNX Runtime, from a status of ours. */
OrtStatus *ow_status(const OrtApi *api, ortwin_status status, const ortwin_error *error);

#define ORT_TRY(call)             \
    do {                          \
        OrtStatus *failed = call; \
        if (failed)               \
            return failed;        \
    } while (0)

#endif
