/* The kernels just defined, as the initialiser of an ow_kernels. */
#define K(name)                                                                                   \
    .unary[OW_KERNEL_##name][OW_F32] = name##_f32, .unary[OW_KERNEL_##name][OW_F16] = name##_f16, \
    .unary[OW_KERNEL_##name][OW_BF16] = name##_bf16,
#define BIASED_KERNEL(name)       \
    .biased[OW_KERNEL_##name] = { \
        [OW_F32] = name##_biased_f32, [OW_F16] = name##_biased_f16, [OW_BF16] = name##_biased_bf16},
#define BINARY_KERNEL(name)                                     \
    .binary[OW_KERNEL_##name] = {[OW_F32] = name##_pairs_f32,   \
                                 [OW_F16] = name##_pairs_f16,   \
                                 [OW_BF16] = name##_pairs_bf16, \
                                 [OW_I32] = name##_pairs_i32,   \
                                 [OW_I64] = name##_pairs_i64},
#define CLIP(dtype, suffix) .unary[OW_KERNEL_clip][dtype] = clip_##suffix
#define OW_KERNEL_TABLE                   \
    {.isa = ISA_NAME,                     \
     .products = &products,               \
     .block_products = &block_products,   \
     .float_products = &float_products,   \
     .modular_32 = modular_32,            \
     .modular_64 = modular_64,            \
     .quantisers = &quantisers,           \
     OW_UNARY_KERNELS(K) CLIP(OW_I8, i8), \
     CLIP(OW_I16, i16),                   \
     CLIP(OW_I32, i32),                   \
     CLIP(OW_I64, i64),                   \
     CLIP(OW_U8, u8),                     \
     CLIP(OW_U16, u16),                   \
     CLIP(OW_U32, u32),                   \
     CLIP(OW_U64, u64),                   \
     OW_BIASED_KERNELS(BIASED_KERNEL) OW_BINARY_KERNELS(BINARY_KERNEL)}
