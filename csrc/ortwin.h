/* ortwin: the C interface of libortwin.so.
 *
 * A plan is built once (inputs, constants, nodes in topological order, outputs, seal) and run any number of
 * times, from any number of threads at once. Every function returns a status; text for people goes into the
 * caller's ortwin_error. The library never prints, never aborts and never changes the caller's floating-point
 * control state (contract C4).
 *
 * Element types are the numbers of ONNX's TensorProto.DataType, which ONNX Runtime shares up to 23.
 */
#ifndef ORTWIN_H
#define ORTWIN_H

#include <stddef.h>
#include <stdint.h>

#define ORTWIN_EXPORT __attribute__((visibility("default")))

typedef enum ortwin_status {
    ORTWIN_OK = 0,
    ORTWIN_NULL_POINTER = 1,    /* a required pointer is NULL */
    ORTWIN_MISUSE = 2,          /* wrong order of calls, wrong count, slot that does not exist */
    ORTWIN_UNSUPPORTED = 3,     /* a node this library can't execute exactly as written */
    ORTWIN_BAD_DTYPE = 4,       /* an operand has another element type than the plan was built for */
    ORTWIN_BAD_SHAPE = 5,       /* negative dimension, wrong rank, buffer size that is not the shape's */
    ORTWIN_OVERFLOW = 6,        /* the size of a tensor does not fit in memory's address range */
    ORTWIN_OVERLAP = 7,         /* an output overlaps a live operand and is not an exact in-place use of it */
    ORTWIN_OUT_OF_MEMORY = 8,   /* malloc said no */
    ORTWIN_ISA_UNAVAILABLE = 9, /* unknown instruction set, or one this CPU or OS lacks */
    ORTWIN_HOST_FAILED = 10,    /* the host's callback could not provide an output */
    ORTWIN_BAD_VALUE = 11       /* an element of an operand that breaks a rule of the op */
} ortwin_status;

typedef struct ortwin_error {
    char text[512]; /* one sentence, NUL-terminated; valid when the call returned something but ORTWIN_OK */
} ortwin_error;

/* A tensor in the caller's memory, C order. dims may be NULL when rank is 0; data may be NULL when it has no elements. */
typedef struct ortwin_tensor {
    void *data;
    const int64_t *dims;
    size_t rank;
    size_t bytes; /* size of the buffer; must equal the shape's size */
    int32_t dtype;
} ortwin_tensor;

/* What is known of an operand before Run. */
typedef struct ortwin_operand {
    int32_t dtype;       /* 0: operand is missing */
    int32_t rank;        /* -1: unknown */
    const int64_t *dims; /* rank entries, -1 for an unknown one; NULL when rank <= 0 */
} ortwin_operand;

typedef enum ortwin_attr_type { /* numbered as in ONNX Runtime's OrtOpAttrType */
                                ORTWIN_ATTR_UNDEFINED = 0,
                                ORTWIN_ATTR_INT = 1,
                                ORTWIN_ATTR_INTS = 2,
                                ORTWIN_ATTR_FLOAT = 3,
                                ORTWIN_ATTR_FLOATS = 4,
                                ORTWIN_ATTR_STRING = 5,
                                ORTWIN_ATTR_STRINGS = 6,
                                ORTWIN_ATTR_GRAPH = 7,
                                ORTWIN_ATTR_TENSOR = 8
} ortwin_attr_type;

typedef struct ortwin_attr {
    const char *name;
    int32_t type;  /* ortwin_attr_type */
    float f;       /* value of a FLOAT attribute */
    int64_t i;     /* value of an INT attribute */
    const char *s; /* value of a STRING attribute, length bytes that need no NUL; NULL: some text of that length */
    size_t length;
} ortwin_attr;

typedef struct ortwin_node {
    const char *name;      /* for messages; may be NULL or empty */
    const char *domain;    /* "" or "ai.onnx" for the ONNX domain */
    const char *op_type;   /* "Relu" */
    int32_t since_version; /* since_version of the op's schema */
    const int32_t *inputs; /* slots; -1 for a missing optional input */
    size_t input_count;
    size_t output_count;
    const ortwin_attr *attrs;
    size_t attr_count;
} ortwin_node;

typedef struct ortwin_plan ortwin_plan;

enum { ORTWIN_MAX_THREADS = 1024 };

/* The thread pool of a program that runs plans: a host's. */
typedef void (*ortwin_task_fn)(void *user, size_t index);
/* Calls task(user, 0) to task(user, total - 1), each once, on any threads, and returns 0 when all have returned; or
 * returns another number, having called as many as it likes, and then the caller sees to the rest. */
typedef int (*ortwin_dispatch_fn)(void *context, ortwin_task_fn task, size_t total, void *user);

typedef struct ortwin_host {
    ortwin_dispatch_fn dispatch;
    void *context;
    _Atomic uint32_t *state; /* one per session, 0 at first: what was learned of the host's pool */
} ortwin_host;

/* Asked once per output and Run, as soon as the shape is known: where shall output `index` be written?
 * NULL is an error unless the tensor has no elements. `shape->data` is NULL; dims are valid during the call. */
typedef void *(*ortwin_output_fn)(void *user, size_t index, const ortwin_tensor *shape);

/* isa: "avx512", "avx2", "portable"; NULL or "": the environment variable ORTWIN_ISA, else the widest available.
 * threads: the budget of a Run, the calling thread included, up to ORTWIN_MAX_THREADS. 1: the caller alone, and no thread
 * is ever made or asked for. 0: as many as the process may use (affinity mask, cgroup quota), or in a host's pool
 * whatever it has. The bits do not depend on it. */
ORTWIN_EXPORT ortwin_status ortwin_plan_new(const char *isa, int32_t threads, ortwin_plan **plan, ortwin_error *error);
/* 0 to 4: com.microsoft MatMulNBits nodes added from now on are computed as if their accuracy_level were this one, where
 * that is the more exact; 4, at first, leaves all as they say. */
ORTWIN_EXPORT ortwin_status ortwin_plan_nbits_level(ortwin_plan *plan, int32_t level, ortwin_error *error);
ORTWIN_EXPORT void ortwin_plan_free(ortwin_plan *plan);
ORTWIN_EXPORT ortwin_status ortwin_plan_input(ortwin_plan *plan, const ortwin_operand *what, int32_t *slot,
                                              ortwin_error *error);
ORTWIN_EXPORT ortwin_status ortwin_plan_constant(ortwin_plan *plan, const ortwin_tensor *value, int32_t *slot,
                                                 ortwin_error *error);
ORTWIN_EXPORT ortwin_status ortwin_plan_node(ortwin_plan *plan, const ortwin_node *node, int32_t *output_slots,
                                             ortwin_error *error);
ORTWIN_EXPORT ortwin_status ortwin_plan_output(ortwin_plan *plan, int32_t slot, ortwin_error *error);
ORTWIN_EXPORT ortwin_status ortwin_plan_seal(ortwin_plan *plan, ortwin_error *error);
ORTWIN_EXPORT const char *ortwin_plan_isa(const ortwin_plan *plan);
/* The element type of a value; 0 for a slot that does not exist. */
ORTWIN_EXPORT int32_t ortwin_plan_dtype(const ortwin_plan *plan, int32_t slot);
ORTWIN_EXPORT ortwin_status ortwin_plan_run(const ortwin_plan *plan, const ortwin_tensor *inputs, size_t input_count,
                                            ortwin_output_fn output, void *user, ortwin_error *error);
/* The same in a host's pool. The library makes no thread then. Whether the pool has threads besides the caller is
 * learned by dispatches of empty tasks, of which a host without any sees fewer and fewer; until then, and when the host
 * refuses, the caller works alone. */
ORTWIN_EXPORT ortwin_status ortwin_plan_run_in(const ortwin_plan *plan, const ortwin_host *host,
                                               const ortwin_tensor *inputs, size_t input_count, ortwin_output_fn output,
                                               void *user, ortwin_error *error);

/* Bytes that the packed constant matrices of all plans of this process may take together, from now on: what was said last
 * holds for packs not yet made, and none that is there is dropped for it. Before anything was said: the environment
 * variable ORTWIN_PACK_BYTES, else 1 GiB. A matrix that does not fit is packed by each Run, with the same bits. */
ORTWIN_EXPORT void ortwin_pack_bytes(uint64_t bytes);

/* Between these two, which nest, Runs of the calling thread are serial, whatever their budget. */
ORTWIN_EXPORT void ortwin_serial_begin(void);
ORTWIN_EXPORT void ortwin_serial_end(void);

/* Calls task(user, 0) to task(user, count - 1) as the pieces of a node are computed: on the threads of host, or for NULL
 * on the library's own, each under the floating-point state of C4, what they run themselves being serial. Returns when
 * all have returned. A task must not fork and must return. */
ORTWIN_EXPORT ortwin_status ortwin_parallel(const ortwin_host *host, int32_t threads, size_t count, ortwin_task_fn task,
                                            void *user, ortwin_error *error);

/* The length, in elements, of the pieces in which a tensor is computed by several threads; `length` itself when it is
 * not cut. cost_class: as in ortwin_op_row; unknown: 0. row_width: elements of the row operand (a bias), else 1. */
ORTWIN_EXPORT size_t ortwin_piece_length(const char *cost_class, size_t length, size_t row_width);

ORTWIN_EXPORT const char *ortwin_version(void);

/* Instruction sets, widest first. why: NULL when available, else the reason it is not. False past the end. */
ORTWIN_EXPORT int ortwin_isa(size_t index, const char **name, const char **why);

/* Counters, process totals since load. False past the end. */
ORTWIN_EXPORT int ortwin_counter(size_t index, const char **name, uint64_t *value);

/* What shape and strides (in elements) say of a tensor's memory; false for a negative dimension.
 * contiguous: in C order without gap. dense: without gap and without overlap, the axes in any order and direction.
 * Axes of size 1 may have any stride, and a tensor without elements is both. */
ORTWIN_EXPORT int ortwin_is_contiguous(const int64_t *dims, const int64_t *strides, size_t rank);
ORTWIN_EXPORT int ortwin_is_dense(const int64_t *dims, const int64_t *strides, size_t rank);

/* The op table, a row per (domain, name, since_version). dtypes: bit k set when element type k is supported. */
typedef struct ortwin_op_row {
    const char *domain, *name, *cost_class;
    int32_t since_version;
    uint32_t dtypes;
} ortwin_op_row;
ORTWIN_EXPORT int ortwin_op(size_t index, ortwin_op_row *row);

#endif
