/* Reading ONNX Runtime's graph. */
#include "ort/ep.h"

#include "run/dtype.h"
#include "run/shape.h"

#include <stdlib.h>
#include <string.h>

/* ONNX Runtime's number of an element type as ONNX's, -1 for those that the two number differently. */
static int32_t onnx_dtype(int ort_dtype) { return ort_dtype > 0 && ort_dtype < OW_SHARED_DTYPES ? ort_dtype : -1; }

/* Room for a STRING attribute. A longer one is no value of an op of the table. */
enum { TEXT_ROOM = 32 };

static OrtStatus *read_attr(const ow_host *host, const OrtOpAttr *from, ortwin_attr *attr, char *text) {
    int type = ORTWIN_ATTR_UNDEFINED;
    size_t size;
    ORT_TRY(ORT(host, api, OpAttr_GetName, (from, &attr->name)));
    ORT_TRY(ORT(host, api, OpAttr_GetType, (from, &type)));
    attr->type = type;
    if (type == ORTWIN_ATTR_FLOAT)
        return ORT(host, api, ReadOpAttr, (from, type, &attr->f, sizeof attr->f, &size));
    if (type == ORTWIN_ATTR_INT)
        return ORT(host, api, ReadOpAttr, (from, type, &attr->i, sizeof attr->i, &size));
    if (type == ORTWIN_ATTR_STRING) { /* not NUL-terminated */
        OrtStatus *too_long = ORT(host, api, ReadOpAttr, (from, type, text, TEXT_ROOM, &attr->length));
        if (too_long)
            ORT(host, api, ReleaseStatus, (too_long));
        else
            attr->s = text;
    }
    return NULL; /* no op of the table reads another kind */
}

static OrtStatus *read_lists(const ow_host *host, ow_counter phase, const OrtNode *from, ow_node_info *info) {
    ortwin_node *node = &info->node;
    int since = 0;
    ORT_TRY(ORT(host, api, Node_GetName, (from, &node->name)));
    ORT_TRY(ORT(host, api, Node_GetDomain, (from, &node->domain)));
    ORT_TRY(ORT(host, api, Node_GetOperatorType, (from, &node->op_type)));
    ORT_TRY(ORT(host, api, Node_GetSinceVersion, (from, &since)));
    node->since_version = since;
    ORT_TRY(ORT(host, api, Node_GetNumInputs, (from, &node->input_count)));
    ORT_TRY(ORT(host, api, Node_GetNumOutputs, (from, &node->output_count)));
    ORT_TRY(ORT(host, api, Node_GetNumAttributes, (from, &node->attr_count)));
    size_t pointers = node->input_count + node->output_count + node->attr_count;
    info->memory = ow_alloc(host->tally, phase, pointers + 1, sizeof(void *) + sizeof(ortwin_attr) + TEXT_ROOM);
    if (!info->memory)
        return ow_no_memory_status(host);
    info->attrs = info->memory;
    info->inputs = (const OrtValueInfo **)(void *)(info->attrs + node->attr_count);
    info->outputs = info->inputs + node->input_count;
    const OrtOpAttr **attrs = (const OrtOpAttr **)(void *)(info->outputs + node->output_count);
    char *texts = (char *)(attrs + node->attr_count);
    node->attrs = info->attrs;
    if (node->input_count)
        ORT_TRY(ORT(host, api, Node_GetInputs, (from, info->inputs, node->input_count)));
    if (node->output_count)
        ORT_TRY(ORT(host, api, Node_GetOutputs, (from, info->outputs, node->output_count)));
    if (node->attr_count)
        ORT_TRY(ORT(host, api, Node_GetAttributes, (from, attrs, node->attr_count)));
    for (size_t k = 0; k < node->attr_count; k++)
        ORT_TRY(read_attr(host, attrs[k], &info->attrs[k], texts + k * TEXT_ROOM));
    return NULL;
}

OrtStatus *ow_read_node(const ow_host *host, ow_counter phase, const OrtNode *node, ow_node_info *info) {
    memset(info, 0, sizeof *info);
    OrtStatus *status = read_lists(host, phase, node, info);
    if (status)
        ow_free_node(info);
    return status;
}

void ow_free_node(ow_node_info *info) {
    free(info->memory);
    info->memory = NULL;
}

OrtStatus *ow_read_operand(const ow_host *host, ow_counter phase, const OrtValueInfo *value, ortwin_operand *operand,
                           int64_t **dims) {
    *operand = (ortwin_operand){0, -1, NULL};
    *dims = NULL;
    if (!value)
        return NULL;
    operand->dtype = -1;
    const OrtTypeInfo *type = NULL;
    ORT_TRY(ORT(host, api, GetValueInfoTypeInfo, (value, &type)));
    int kind = 0, dtype = 0;
    if (type)
        ORT_TRY(ORT(host, api, GetOnnxTypeFromTypeInfo, (type, &kind)));
    if (kind != ONNX_TYPE_TENSOR)
        return NULL;
    const OrtTensorTypeAndShapeInfo *tensor = NULL; /* borrowed from type */
    size_t rank = 0;
    ORT_TRY(ORT(host, api, CastTypeInfoToTensorInfo, (type, &tensor)));
    ORT_TRY(ORT(host, api, GetTensorElementType, (tensor, &dtype)));
    operand->dtype = onnx_dtype(dtype);
    ORT_TRY(ORT(host, api, GetDimensionsCount, (tensor, &rank)));
    /* Rank 0 may also mean that the rank is unknown, which older hosts can't tell apart. */
    bool known = host->version >= OW_API_SHAPES ? ORT(host, api, TensorTypeAndShape_HasShape, (tensor)) : rank > 0;
    if (!known || rank > INT32_MAX)
        return NULL;
    operand->rank = (int32_t)rank;
    if (!rank)
        return NULL;
    operand->dims = *dims = ow_alloc(host->tally, phase, rank, sizeof **dims);
    return *dims ? ORT(host, api, GetDimensions, (tensor, *dims, rank)) : ow_no_memory_status(host);
}

/* The shape of a tensor from a host that has to copy it. */
static OrtStatus *copy_shape(const ow_host *host, const OrtTensorTypeAndShapeInfo *info, ow_room_fn *room, void *user,
                             int *dtype, ortwin_tensor *tensor) {
    ORT_TRY(ORT(host, api, GetTensorElementType, (info, dtype)));
    ORT_TRY(ORT(host, api, GetDimensionsCount, (info, &tensor->rank)));
    int64_t *dims = room(user, tensor->rank);
    if (!dims)
        return ow_no_memory_status(host);
    tensor->dims = dims;
    return ORT(host, api, GetDimensions, (info, dims, tensor->rank));
}

OrtStatus *ow_read_tensor(const ow_host *host, const OrtValue *value, ow_room_fn *room, void *user,
                          ortwin_tensor *tensor) {
    int dtype = 0;
    const void *data = NULL;
    if (host->shape_reference)
        ORT_TRY(
            ORT(host, api, GetTensorElementTypeAndShapeDataReference, (value, &dtype, &tensor->dims, &tensor->rank)));
    else {
        OrtTensorTypeAndShapeInfo *info = NULL;
        ORT_TRY(ORT(host, api, GetTensorTypeAndShape, (value, &info)));
        if (!info)
            return ORT(host, api, CreateStatus, (ORT_FAIL, "ortwin: the host tells no shape of a tensor"));
        OrtStatus *status = copy_shape(host, info, room, user, &dtype, tensor);
        ORT(host, api, ReleaseTensorTypeAndShapeInfo, (info));
        ORT_TRY(status);
    }
    ORT_TRY(ORT(host, api, GetTensorData, (value, &data)));
    tensor->dtype = onnx_dtype(dtype);
    tensor->data = (void *)(uintptr_t)data; /* an input: the plan only reads it */
    /* The host's own tensor: its size fits. A scalar has no dims, and the plan says so of what else has none. */
    size_t count;
    ow_tensor_size(tensor->dtype, tensor->dims ? tensor->rank : 0, tensor->dims, &count, &tensor->bytes);
    return NULL;
}
