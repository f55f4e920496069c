/* A Run of one claimed group: hand ONNX Runtime's tensors to the plan. */
#include "ort/ep.h"

#include <stdlib.h>

typedef struct ow_compute {
    OrtNodeComputeInfo base;
    const OrtApi *api;
    ortwin_plan *plan;
    _Atomic uint32_t *pool_state; /* the session's */
    size_t input_count;
} ow_compute;

typedef struct host {
    const OrtApi *api;
    OrtKernelContext *context;
    OrtStatus *failed; /* what ONNX Runtime said when an output could not be had */
} host;

static void *host_output(void *user, size_t index, const ortwin_tensor *shape) {
    host *h = user;
    OrtValue *value = NULL;
    void *data = NULL;
    h->failed = h->api->KernelContext_GetOutput(h->context, index, shape->dims, shape->rank, &value);
    if (!h->failed && shape->bytes) /* an empty tensor has no data pointer to ask for */
        h->failed = h->api->GetTensorMutableData(value, &data);
    return data;
}

/* The session's intra-op pool, as the plan sees it. Batches 0: each index is taken by the next thread that is free. */
static int host_dispatch(void *user, ortwin_task_fn task, size_t total, void *job) {
    const host *h = user;
    OrtStatus *refused = h->api->KernelContext_ParallelFor(h->context, task, total, 0, job);
    if (refused)
        h->api->ReleaseStatus(refused);
    return refused != NULL;
}

static OrtStatus *read_inputs(const ow_compute *c, OrtKernelContext *context, ortwin_tensor *inputs) {
    for (size_t k = 0; k < c->input_count; k++) {
        const OrtValue *value = NULL;
        ORT_TRY(c->api->KernelContext_GetInput(context, k, &value));
        if (!value) /* GetInput past the end is not an error for ONNX Runtime */
            return c->api->CreateStatus(ORT_FAIL, "ortwin: an input of the group is missing at Run");
        ORT_TRY(ow_read_tensor(c->api, value, &inputs[k]));
    }
    return NULL;
}

static OrtStatus *run(const ow_compute *c, OrtKernelContext *context, ortwin_tensor *inputs) {
    ORT_TRY(read_inputs(c, context, inputs));
    host h = {c->api, context, NULL};
    ortwin_error error;
    ortwin_host pool = {host_dispatch, &h, c->pool_state};
    ortwin_status status = ortwin_plan_run_in(c->plan, &pool, inputs, c->input_count, host_output, &h, &error);
    if (h.failed)
        return h.failed;
    return status ? ow_status(c->api, status, &error) : NULL;
}

static OrtStatus *compute(OrtNodeComputeInfo *base, void *state, OrtKernelContext *context) {
    (void)state;
    const ow_compute *c = (const ow_compute *)base;
    ortwin_tensor few[OW_MAX_INPUTS];
    if (c->input_count <= OW_MAX_INPUTS)
        return run(c, context, few);
    ortwin_tensor *many = calloc(c->input_count, sizeof *many);
    if (!many)
        return c->api->CreateStatus(ORT_FAIL, "ortwin: out of memory");
    OrtStatus *status = run(c, context, many);
    free(many);
    return status;
}

/* The state is shared by concurrent Runs, and there is nothing to keep in it. */
static OrtStatus *create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context, void **state) {
    (void)context;
    *state = info;
    return NULL;
}

static void release_state(OrtNodeComputeInfo *info, void *state) { (void)info, (void)state; }

OrtNodeComputeInfo *ow_new_compute_info(ow_ep *ep, ortwin_plan *plan) {
    ow_compute *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->base.ort_version_supported = ep->factory->version;
    c->base.CreateState = create_state;
    c->base.Compute = compute;
    c->base.ReleaseState = release_state;
    c->api = ep->factory->api;
    c->plan = plan;
    c->pool_state = &ep->pool_state;
    c->input_count = ow_plan_input_count(plan);
    return &c->base;
}

void ow_free_compute_info(OrtNodeComputeInfo *info) {
    if (info)
        ortwin_plan_free(((ow_compute *)info)->plan);
    free(info);
}
