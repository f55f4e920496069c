/* A Run of one claimed group: hand ONNX Runtime's tensors to the plan. Three calls for an input, two for an output, and
 * no memory of our own. */
#include "ort/ep.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct ow_compute {
    OrtNodeComputeInfo base;
    ow_host host; /* but for the tally, which is each Run's own */
    ow_trace *trace;
    ortwin_plan *plan;
    _Atomic uint32_t *pool_state; /* the session's */
    size_t input_count;
} ow_compute;

typedef struct run {
    ow_host host;
    OrtKernelContext *context;
    ow_frame *frame;
    OrtStatus *failed; /* what ONNX Runtime said when an output could not be had */
} run;

static void *host_output(void *user, size_t index, const ortwin_tensor *shape) {
    run *r = user;
    OrtValue *value = NULL;
    void *data = NULL;
    if (r->failed)
        return NULL;
    r->failed = ORT(&r->host, api, KernelContext_GetOutput, (r->context, index, shape->dims, shape->rank, &value));
    if (!r->failed && value && shape->bytes) /* an empty tensor has no data pointer to ask for */
        r->failed = ORT(&r->host, api, GetTensorMutableData, (value, &data));
    return data;
}

/* The session's intra-op pool, as the plan sees it. Batches 0: each index is taken by the next thread that is free. Asked
 * by the thread that runs the plan, so counting is safe. */
static int host_dispatch(void *user, ortwin_task_fn task, size_t total, void *job) {
    const run *r = user;
    if (!r->host.api->KernelContext_ParallelFor)
        return 1;
    OrtStatus *refused = ORT(&r->host, api, KernelContext_ParallelFor, (r->context, task, total, 0, job));
    if (refused)
        ORT(&r->host, api, ReleaseStatus, (refused));
    return refused != NULL;
}

typedef struct place {
    ow_frame *frame;
    size_t input;
} place;

static int64_t *room_in_frame(void *user, size_t rank) {
    const place *p = user;
    return ow_frame_dims(p->frame, p->input, rank);
}

static OrtStatus *read_inputs(const run *r, size_t count) {
    ortwin_tensor *inputs = ow_frame_inputs(r->frame);
    for (size_t k = 0; k < count; k++) {
        const OrtValue *value = NULL;
        ORT_TRY(ORT(&r->host, api, KernelContext_GetInput, (r->context, k, &value)));
        if (!value) /* GetInput past the end is not an error for ONNX Runtime */
            return ORT(&r->host, api, CreateStatus, (ORT_FAIL, "ortwin: an input of the group is missing at Run"));
        ORT_TRY(ow_read_tensor(&r->host, value, room_in_frame, &(place){r->frame, k}, &inputs[k]));
    }
    return NULL;
}

/* The host could not provide an output: its code and words, after ours, which name the node. */
static OrtStatus *no_output(const run *r, const ortwin_error *error) {
    const char *why = ORT(&r->host, api, GetErrorMessage, (r->failed));
    char both[2 * sizeof error->text];
    snprintf(both, sizeof both, "%s: %s", error->text, why ? why : "");
    OrtStatus *status = ORT(&r->host, api, CreateStatus, (ORT(&r->host, api, GetErrorCode, (r->failed)), both));
    ORT(&r->host, api, ReleaseStatus, (r->failed));
    return status;
}

static OrtStatus *execute(const ow_compute *c, run *r) {
    uint64_t begin = ow_begin(c->trace);
    ORT_TRY(read_inputs(r, c->input_count));
    ow_end(c->trace, OW_PHASE_inputs, begin);
    ortwin_error error;
    const ortwin_host pool = {host_dispatch, r, c->pool_state};
    ortwin_status status = ow_plan_execute(r->frame, &pool, host_output, r, &error);
    if (r->failed)
        return status ? no_output(r, &error) : r->failed; /* of an output without elements the plan says nothing */
    return status ? ow_status(&r->host, status, &error) : NULL;
}

static OrtStatus *compute(OrtNodeComputeInfo *base, void *state, OrtKernelContext *context) {
    (void)state;
    const ow_compute *c = (const ow_compute *)base;
    run r = {.host = c->host, .context = context};
    uint64_t begin = ow_begin(c->trace);
    r.frame = ow_plan_enter(c->plan);
    if (!r.frame)
        return ow_no_memory_status(&c->host);
    r.host.tally = ow_frame_tally(r.frame);
    OrtStatus *status = execute(c, &r);
    ow_plan_leave(r.frame);
    ow_end(c->trace, OW_PHASE_run, begin);
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
    ow_compute *c = ow_alloc(&ep->tally, OW_allocations_build, 1, sizeof *c);
    if (!c)
        return NULL;
    c->base.ort_version_supported = ep->host.version;
    c->base.CreateState = create_state;
    c->base.Compute = compute;
    c->base.ReleaseState = release_state;
    c->host = ep->host;
    c->host.tally = &ep->factory->tally; /* shared: for what is said before a Run has a frame */
    c->trace = ep->trace;
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
