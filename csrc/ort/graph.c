/* Reading ONNX Runtime's graph. */
#include "ort/ep.h"

#include "run/dtype.h"

#include <stdlib.h>
#include <string.h>

/* ONNX Runtime's number of an element type as ONNX's, -1 for those that the two number differently. */
static int32_t onnx_dtype(int ort_dtype) { return ort_dtype > 0 && ort_dtype < OW_SHARED_DTYPES ? ort_dtype : -1; }

/* Room for a STRING attribute. A longer one is no value of an op of the table. */
enum { TEXT_ROOM = 32 };

static OrtStatus *read_attr(const OrtApi *api, const OrtOpAttr *from, ortwin_attr *attr, char *text) {
    int type = ORTWIN_ATTR_UNDEFINED;
    size_t size;
    ORT_TRY(api->OpAttr_GetName(from, &attr->name));
    ORT_TRY(api->OpAttr_GetType(from, &type));
    attr->type = type;
    if (type == ORTWIN_ATTR_FLOAT)
        return api->ReadOpAttr(from, type, &attr->f, sizeof attr->f, &size);
    if (type == ORTWIN_ATTR_INT)
        return api->ReadOpAttr(from, type, &attr->i, sizeof attr->i, &size);
    if (type == ORTWIN_ATTR_STRING) { /* not NUL-terminated */
        OrtStatus *too_long = api->ReadOpAttr(from, type, text, TEXT_ROOM, &attr->length);
        if (too_long)
            api->ReleaseStatus(too_long);
        else
            attr->s = text;
    }
    return NULL; /* no op of the table reads another kind */
}

static OrtStatus *read_lists(const OrtApi *api, const OrtNode *from, ow_node_info *info) {
    ortwin_node *node = &info->node;
    int since = 0;
    ORT_TRY(api->Node_GetName(from, &node->name));
    ORT_TRY(api->Node_GetDomain(from, &node->domain));
    ORT_TRY(api->Node_GetOperatorType(from, &node->op_type));
    ORT_TRY(api->Node_GetSinceVersion(from, &since));
    node->since_version = since;
    ORT_TRY(api->Node_GetNumInputs(from, &node->input_count));
    ORT_TRY(api->Node_GetNumOutputs(from, &node->output_count));
    ORT_TRY(api->Node_GetNumAttributes(from, &node->attr_count));
    size_t pointers = node->input_count + node->output_count + node->attr_count;
    info->memory = calloc(pointers + 1, sizeof(void *) + sizeof(ortwin_attr) + TEXT_ROOM);
    if (!info->memory)
        return api->CreateStatus(ORT_FAIL, "ortwin: out of memory");
    info->attrs = info->memory;
    info->inputs = (const OrtValueInfo **)(void *)(info->attrs + node->attr_count);
    info->outputs = info->inputs + node->input_count;
    const OrtOpAttr **attrs = (const OrtOpAttr **)(void *)(info->outputs + node->output_count);
    char *texts = (char *)(attrs + node->attr_count);
    node->attrs = info->attrs;
    if (node->input_count)
        ORT_TRY(api->Node_GetInputs(from, info->inputs, node->input_count));
    if (node->output_count)
        ORT_TRY(api->Node_GetOutputs(from, info->outputs, node->output_count));
    if (node->attr_count)
        ORT_TRY(api->Node_GetAttributes(from, attrs, node->attr_count));
    for (size_t k = 0; k < node->attr_count; k++)
        ORT_TRY(read_attr(api, attrs[k], &info->attrs[k], texts + k * TEXT_ROOM));
    return NULL;
}

OrtStatus *ow_read_node(const OrtApi *api, const OrtNode *node, ow_node_info *info) {
    memset(info, 0, sizeof *info);
    OrtStatus *status = read_lists(api, node, info);
    if (status)
        ow_free_node(info);
    return status;
}

void ow_free_node(ow_node_info *info) {
    free(info->memory);
    info->memory = NULL;
}

OrtStatus *ow_read_operand(const OrtApi *api, const OrtValueInfo *value, int64_t *room, ortwin_operand *operand) {
    *operand = (ortwin_operand){0, -1, NULL};
    if (!value)
        return NULL;
    operand->dtype = -1;
    const OrtTypeInfo *type = NULL;
    ORT_TRY(api->GetValueInfoTypeInfo(value, &type));
    int kind = 0, dtype = 0;
    if (type)
        ORT_TRY(api->GetOnnxTypeFromTypeInfo(type, &kind));
    if (kind != ONNX_TYPE_TENSOR)
        return NULL;
    const OrtTensorTypeAndShapeInfo *tensor = NULL; /* borrowed from type */
    ORT_TRY(api->CastTypeInfoToTensorInfo(type, &tensor));
    ORT_TRY(api->GetTensorElementType(tensor, &dtype));
    operand->dtype = onnx_dtype(dtype);
    if (api->TensorTypeAndShape_HasShape(tensor)) { /* else rank 0 would mean "unknown" */
        size_t rank = 0;
        ORT_TRY(api->GetDimensionsCount(tensor, &rank));
        operand->rank = rank <= INT32_MAX ? (int32_t)rank : -1;
        if (room && rank > 0 && rank <= OW_DIMS) {
            ORT_TRY(api->GetDimensions(tensor, room, rank)); /* -1 for an unknown one, as we say it */
            operand->dims = room;
        }
    }
    return NULL;
}

OrtStatus *ow_read_tensor(const OrtApi *api, const OrtValue *value, ortwin_tensor *tensor) {
    int dtype = 0;
    const void *data = NULL;
    ORT_TRY(api->GetTensorElementTypeAndShapeDataReference(value, &dtype, &tensor->dims, &tensor->rank));
    ORT_TRY(api->GetTensorData(value, &data));
    tensor->dtype = onnx_dtype(dtype);
    tensor->data = (void *)(uintptr_t)data; /* an input: the plan only reads it */
    tensor->bytes = ow_item_size(tensor->dtype);
    for (size_t k = 0; k < tensor->rank; k++) /* the host's own tensor: its size fits */
        tensor->bytes *= (size_t)tensor->dims[k];
    return NULL;
}
