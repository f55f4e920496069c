/* Tables of Log. Made by fit/logarithm.py. */
/* clang-format off */
#define LOG_LN2HI 0x1.62e4p-1f /* floor(2^16 ln 2) / 2^16 */
#define LOG_LN2LO 0x1.7f7d1cp-20f /* ln 2 - LOG_LN2HI */
#define LOG_Q0 -0x1.fffffcp-2f
#define LOG_Q1 0x1.555512p-2f
#define LOG_Q2 -0x1.001026p-2f
#define LOG_Q3 0x1.9b2866p-3f
#define LOG_Q4 -0x1.3d9bfp-3f
/* about 1 / m */
static const float log_c[32] = {
    0x1p+0f, 0x1p+0f, 0x1p+0f, 0x1.cd6956p-1f,
    0x1.c0bb9ap-1f, 0x1.b5091ep-1f, 0x1.a98f14p-1f, 0x1.9e8de8p-1f,
    0x1.94d24ap-1f, 0x1.8a9b1ep-1f, 0x1.818612p-1f, 0x1.788a96p-1f,
    0x1.701f3ap-1f, 0x1.68533p-1f, 0x1.607bb6p-1f, 0x1.59072ap-1f,
    0x1.51a31ep+0f, 0x1.4adfd6p+0f, 0x1.4488bap+0f, 0x1.3e23f8p+0f,
    0x1.383738p+0f, 0x1.3204a2p+0f, 0x1.2c7288p+0f, 0x1.275452p+0f,
    0x1.2225e2p+0f, 0x1.1cc66p+0f, 0x1.183b48p+0f, 0x1.1352cep+0f,
    0x1p+0f, 0x1p+0f, 0x1p+0f, 0x1p+0f,
};
/* -log LOG_C */
static const float log_t[32] = {
    0.0f, 0.0f, 0.0f, 0x1.aa2p-4f,
    0x1.0e2p-3f, 0x1.4438p-3f, 0x1.7ab8p-3f, 0x1.b06p-3f,
    0x1.e108p-3f, 0x1.0abp-2f, 0x1.2288p-2f, 0x1.3aacp-2f,
    0x1.51d4p-2f, 0x1.67cp-2f, 0x1.7e48p-2f, 0x1.942cp-2f,
    -0x1.1b7p-2f, -0x1.06b8p-2f, -0x1.e5dp-3f, -0x1.bd1p-3f,
    -0x1.969p-3f, -0x1.6d8p-3f, -0x1.47ep-3f, -0x1.24bp-3f,
    -0x1.007p-3f, -0x1.b45p-4f, -0x1.727p-4f, -0x1.2a1p-4f,
    0.0f, 0.0f, 0.0f, 0.0f,
};
/* clang-format on */
