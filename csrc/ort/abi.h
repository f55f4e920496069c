/* The part of ONNX Runtime's C ABI that a plugin execution provider of ours touches.
 *
 * No package ships the header, so the slots used are declared here, each held in place by an assertion on its offset
 * (slot i of an API table is at byte 8 i). Tables only grow at their end; a slot keeps its index and signature for
 * good. Names and parameters are ONNX Runtime's own. Handles are opaque. */
#ifndef ORTWIN_ORT_ABI_H
#define ORTWIN_ORT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct OrtStatus OrtStatus;
typedef struct OrtLogger OrtLogger;
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtValue OrtValue;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtDataTransferImpl OrtDataTransferImpl;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtNodeComputeInfo OrtNodeComputeInfo;
typedef struct OrtNodeFusionOptions OrtNodeFusionOptions;

/* OrtErrorCode. EP_FAIL (11) is avoided: the Python wrapper answers it by silently rebuilding the session on CPU. */
enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };
enum { ONNX_TYPE_TENSOR = 1 };
enum { ORT_HARDWARE_DEVICE_CPU = 0 };
enum { ORT_LOGGING_INFO = 1, ORT_LOGGING_WARNING = 2 };

#define ABI_GAP(first, next) void *slots_##first##_to_##next[(next) - (first)]

typedef struct OrtEpApi {
    OrtStatus *(*CreateEpDevice)(OrtEpFactory *, const OrtHardwareDevice *, const OrtKeyValuePairs *,
                                 const OrtKeyValuePairs *, OrtEpDevice **);
    ABI_GAP(1, 2);
    OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *, const OrtNode *const *, size_t,
                                                    const OrtNodeFusionOptions *);
} OrtEpApi;

typedef struct OrtApi {
    OrtStatus *(*CreateStatus)(int code, const char *message);
    int (*GetErrorCode)(const OrtStatus *);
    const char *(*GetErrorMessage)(const OrtStatus *);
    ABI_GAP(3, 51);
    OrtStatus *(*GetTensorMutableData)(OrtValue *, void **);
    ABI_GAP(52, 55);
    OrtStatus *(*CastTypeInfoToTensorInfo)(const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **);
    OrtStatus *(*GetOnnxTypeFromTypeInfo)(const OrtTypeInfo *, int *);
    ABI_GAP(57, 60);
    OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *, int *);
    OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *, size_t *);
    OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t);
    ABI_GAP(63, 65);
    OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *, OrtTensorTypeAndShapeInfo **);
    ABI_GAP(66, 90);
    OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *, size_t, const OrtValue **);
    OrtStatus *(*KernelContext_GetOutput)(OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **);
    ABI_GAP(92, 93);
    void (*ReleaseStatus)(OrtStatus *);
    ABI_GAP(94, 99);
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *);
    ABI_GAP(100, 247);
    OrtStatus *(*Logger_LogMessage)(const OrtLogger *, int level, const char *message, const char *path, int line,
                                    const char *function);
    OrtStatus *(*Logger_GetLoggingSeverityLevel)(const OrtLogger *, int *);
    ABI_GAP(249, 272);
    OrtStatus *(*ReadOpAttr)(const OrtOpAttr *, int type, void *data, size_t length, size_t *out);
    ABI_GAP(273, 274);
    OrtStatus *(*KernelContext_ParallelFor)(const OrtKernelContext *, void (*)(void *, size_t), size_t total,
                                            size_t batches, void *);
    ABI_GAP(275, 289);
    OrtStatus *(*GetValueInfoName)(const OrtValueInfo *, const char **);
    OrtStatus *(*GetValueInfoTypeInfo)(const OrtValueInfo *, const OrtTypeInfo **);
    ABI_GAP(291, 298);
    void (*GetKeyValuePairs)(const OrtKeyValuePairs *, const char *const **, const char *const **, size_t *);
    ABI_GAP(299, 300);
    void (*ReleaseKeyValuePairs)(OrtKeyValuePairs *);
    ABI_GAP(301, 307);
    int (*HardwareDevice_Type)(const OrtHardwareDevice *);
    ABI_GAP(308, 317);
    const OrtEpApi *(*GetEpApi)(void);
    ABI_GAP(318, 326);
    OrtStatus *(*ValueInfo_GetInitializerValue)(const OrtValueInfo *, const OrtValue **);
    ABI_GAP(327, 331);
    OrtStatus *(*ValueInfo_IsConstantInitializer)(const OrtValueInfo *, bool *);
    ABI_GAP(332, 333);
    OrtStatus *(*Graph_GetName)(const OrtGraph *, const char **);
    ABI_GAP(334, 344);
    OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *, size_t *);
    OrtStatus *(*Graph_GetNodes)(const OrtGraph *, const OrtNode **, size_t);
    OrtStatus *(*Graph_GetParentNode)(const OrtGraph *, const OrtNode **);
    ABI_GAP(347, 349);
    OrtStatus *(*Node_GetName)(const OrtNode *, const char **);
    OrtStatus *(*Node_GetOperatorType)(const OrtNode *, const char **);
    OrtStatus *(*Node_GetDomain)(const OrtNode *, const char **);
    OrtStatus *(*Node_GetSinceVersion)(const OrtNode *, int *);
    OrtStatus *(*Node_GetNumInputs)(const OrtNode *, size_t *);
    OrtStatus *(*Node_GetInputs)(const OrtNode *, const OrtValueInfo **, size_t);
    OrtStatus *(*Node_GetNumOutputs)(const OrtNode *, size_t *);
    OrtStatus *(*Node_GetOutputs)(const OrtNode *, const OrtValueInfo **, size_t);
    OrtStatus *(*Node_GetNumImplicitInputs)(const OrtNode *, size_t *);
    OrtStatus *(*Node_GetImplicitInputs)(const OrtNode *, const OrtValueInfo **, size_t);
    OrtStatus *(*Node_GetNumAttributes)(const OrtNode *, size_t *);
    OrtStatus *(*Node_GetAttributes)(const OrtNode *, const OrtOpAttr **, size_t);
    ABI_GAP(361, 363);
    OrtStatus *(*OpAttr_GetType)(const OrtOpAttr *, int *);
    OrtStatus *(*OpAttr_GetName)(const OrtOpAttr *, const char **);
    ABI_GAP(365, 368);
    OrtStatus *(*Node_GetEpName)(const OrtNode *, const char **);
    ABI_GAP(369, 378);
    OrtStatus *(*GetTensorData)(const OrtValue *, const void **);
    OrtStatus *(*GetSessionOptionsConfigEntries)(const OrtSessionOptions *, OrtKeyValuePairs **);
    ABI_GAP(380, 390);
    bool (*TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo *);
    ABI_GAP(391, 414);
    OrtStatus *(*GetTensorElementTypeAndShapeDataReference)(const OrtValue *, int *, const int64_t **, size_t *);
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;

/* Callbacks of ours, which ONNX Runtime reads by offset; those left NULL are optional. Sizes are those of API 30. */
struct OrtEpFactory {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEpFactory *);
    const char *(*GetVendor)(const OrtEpFactory *);
    OrtStatus *(*GetSupportedDevices)(OrtEpFactory *, const OrtHardwareDevice *const *, size_t, OrtEpDevice **, size_t,
                                      size_t *);
    OrtStatus *(*CreateEp)(OrtEpFactory *, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *, size_t,
                           const OrtSessionOptions *, const OrtLogger *, OrtEp **);
    void (*ReleaseEp)(OrtEpFactory *, OrtEp *);
    uint32_t (*GetVendorId)(const OrtEpFactory *);
    const char *(*GetVersion)(const OrtEpFactory *);
    ABI_GAP(8, 11);
    OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, OrtDataTransferImpl **);
    bool (*IsStreamAware)(const OrtEpFactory *);
    ABI_GAP(13, 21);
};

struct OrtEp {
    uint32_t ort_version_supported;
    const char *(*GetName)(const OrtEp *);
    OrtStatus *(*GetCapability)(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *);
    OrtStatus *(*Compile)(OrtEp *, const OrtGraph **, const OrtNode **, size_t, OrtNodeComputeInfo **, OrtNode **);
    void (*ReleaseNodeComputeInfos)(OrtEp *, OrtNodeComputeInfo **, size_t);
    ABI_GAP(5, 14);
    OrtStatus *(*IsConcurrentRunSupported)(OrtEp *, bool *);
    ABI_GAP(15, 26);
};

struct OrtNodeComputeInfo {
    uint32_t ort_version_supported;
    OrtStatus *(*CreateState)(OrtNodeComputeInfo *, OrtNodeComputeContext *, void **);
    OrtStatus *(*Compute)(OrtNodeComputeInfo *, void *, OrtKernelContext *);
    void (*ReleaseState)(OrtNodeComputeInfo *, void *);
};

struct OrtNodeFusionOptions {
    uint32_t ort_version_supported;
    bool drop_constant_initializers;
};

#define ABI_SLOT(table, member, slot) \
    _Static_assert(offsetof(table, member) == 8 * (slot), #table "." #member " is not slot " #slot)
#define ABI_SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)

ABI_SLOT(OrtApi, CreateStatus, 0);
ABI_SLOT(OrtApi, GetErrorCode, 1);
ABI_SLOT(OrtApi, GetErrorMessage, 2);
ABI_SLOT(OrtApi, GetTensorMutableData, 51);
ABI_SLOT(OrtApi, CastTypeInfoToTensorInfo, 55);
ABI_SLOT(OrtApi, GetOnnxTypeFromTypeInfo, 56);
ABI_SLOT(OrtApi, GetTensorElementType, 60);
ABI_SLOT(OrtApi, GetDimensionsCount, 61);
ABI_SLOT(OrtApi, GetDimensions, 62);
ABI_SLOT(OrtApi, GetTensorTypeAndShape, 65);
ABI_SLOT(OrtApi, KernelContext_GetInput, 90);
ABI_SLOT(OrtApi, KernelContext_GetOutput, 91);
ABI_SLOT(OrtApi, ReleaseStatus, 93);
ABI_SLOT(OrtApi, ReleaseTensorTypeAndShapeInfo, 99);
ABI_SLOT(OrtApi, Logger_LogMessage, 247);
ABI_SLOT(OrtApi, Logger_GetLoggingSeverityLevel, 248);
ABI_SLOT(OrtApi, ReadOpAttr, 272);
ABI_SLOT(OrtApi, KernelContext_ParallelFor, 274);
ABI_SLOT(OrtApi, GetValueInfoName, 289);
ABI_SLOT(OrtApi, GetValueInfoTypeInfo, 290);
ABI_SLOT(OrtApi, GetKeyValuePairs, 298);
ABI_SLOT(OrtApi, ReleaseKeyValuePairs, 300);
ABI_SLOT(OrtApi, HardwareDevice_Type, 307);
ABI_SLOT(OrtApi, GetEpApi, 317);
ABI_SLOT(OrtApi, ValueInfo_GetInitializerValue, 326);
ABI_SLOT(OrtApi, ValueInfo_IsConstantInitializer, 331);
ABI_SLOT(OrtApi, Graph_GetName, 333);
ABI_SLOT(OrtApi, Graph_GetNumNodes, 344);
ABI_SLOT(OrtApi, Graph_GetNodes, 345);
ABI_SLOT(OrtApi, Graph_GetParentNode, 346);
ABI_SLOT(OrtApi, Node_GetName, 349);
ABI_SLOT(OrtApi, Node_GetOperatorType, 350);
ABI_SLOT(OrtApi, Node_GetDomain, 351);
ABI_SLOT(OrtApi, Node_GetSinceVersion, 352);
ABI_SLOT(OrtApi, Node_GetNumInputs, 353);
ABI_SLOT(OrtApi, Node_GetInputs, 354);
ABI_SLOT(OrtApi, Node_GetNumOutputs, 355);
ABI_SLOT(OrtApi, Node_GetOutputs, 356);
ABI_SLOT(OrtApi, Node_GetNumImplicitInputs, 357);
ABI_SLOT(OrtApi, Node_GetImplicitInputs, 358);
ABI_SLOT(OrtApi, Node_GetNumAttributes, 359);
ABI_SLOT(OrtApi, Node_GetAttributes, 360);
ABI_SLOT(OrtApi, OpAttr_GetType, 363);
ABI_SLOT(OrtApi, OpAttr_GetName, 364);
ABI_SLOT(OrtApi, Node_GetEpName, 368);
ABI_SLOT(OrtApi, GetTensorData, 378);
ABI_SLOT(OrtApi, GetSessionOptionsConfigEntries, 379);
ABI_SLOT(OrtApi, TensorTypeAndShape_HasShape, 390);
ABI_SLOT(OrtApi, GetTensorElementTypeAndShapeDataReference, 414);
ABI_SLOT(OrtEpApi, CreateEpDevice, 0);
ABI_SLOT(OrtEpApi, EpGraphSupportInfo_AddNodesToFuse, 2);
ABI_SLOT(OrtApiBase, GetVersionString, 1);
ABI_SLOT(OrtEpFactory, GetName, 1);
ABI_SLOT(OrtEpFactory, GetVersion, 7);
ABI_SLOT(OrtEpFactory, CreateDataTransfer, 11);
ABI_SLOT(OrtEpFactory, IsStreamAware, 12);
ABI_SIZE(OrtEpFactory, 168);
ABI_SLOT(OrtEp, GetName, 1);
ABI_SLOT(OrtEp, ReleaseNodeComputeInfos, 4);
ABI_SLOT(OrtEp, IsConcurrentRunSupported, 14);
ABI_SIZE(OrtEp, 208);
ABI_SLOT(OrtNodeComputeInfo, CreateState, 1);
ABI_SLOT(OrtNodeComputeInfo, ReleaseState, 3);
ABI_SIZE(OrtNodeComputeInfo, 32);
_Static_assert(offsetof(OrtNodeFusionOptions, drop_constant_initializers) == 4, "OrtNodeFusionOptions");
ABI_SIZE(OrtNodeFusionOptions, 8);

#endif
