/* Table of Erf. Made by fit/error_function.py. */
/* clang-format off */
/* erf u; less u at centre 0 */
#define ERF_SEGMENTS(R) \
    R(0x1.9ff79p+0f, 0x1.f4f538p-1f, 0x1.49c096p-4f, -0x1.0be7d4p-3f, 0x1.d68008p-4f, -0x1.94bbaap-5f, -0x1.32ab9ap-9f, 0.0f) \
    R(0x1.dfe9b8p+0f, 0x1.fbe4ap-1f, 0x1.13287p-5f, -0x1.01ea66p-4f, 0x1.147ab2p-4f, -0x1.599d68p-5f, 0x1.72a0d8p-7f, 0.0f) \
    R(0x1.0ffaa8p+1f, 0x1.fea3dep-1f, 0x1.94aa12p-7f, -0x1.adeb7ap-6f, 0x1.0ec98ap-5f, -0x1.b0b39cp-6f, 0x1.97a8p-7f, 0.0f) \
    R(0x1.302954p+1f, 0x1.ff9a0ap-1f, 0x1.04fff8p-8f, -0x1.36175ap-7f, 0x1.bfbdf8p-7f, -0x1.aed53ap-7f, 0x1.12062ap-7f, 0.0f) \
    R(0x1.504abp+1f, 0x1.ffe56cp-1f, 0x1.2954p-10f, -0x1.868d04p-9f, 0x1.3d3cdcp-8f, -0x1.62debep-8f, 0x1.15c068p-8f, 0.0f) \
    R(0x1.7159eap+1f, 0x1.fffa1ep-1f, 0x1.1e5fd6p-12f, -0x1.9d1dacp-11f, 0x1.753dfap-10f, -0x1.dbf266p-10f, 0x1.c54a98p-10f, 0.0f) \
    R(0x1.8ef87cp+1f, 0x1.fffea2p-1f, 0x1.1d98ecp-14f, -0x1.bd013p-13f, 0x1.b6ea8ep-12f, -0x1.35dbd8p-11f, 0x1.32b3c8p-11f, 0.0f) \
    R(0x1.b0e432p+1f, 0x1.ffffc6p-1f, 0x1.98380ap-17f, -0x1.59048cp-15f, 0x1.7397eep-14f, -0x1.2420dap-13f, 0x1.5df2d4p-13f, 0.0f) \
    R(0x1.df38dp+1f, 0x1.fffffcp-1f, 0x1.f0143ap-21f, -0x1.cda4b4p-19f, 0x1.10056ap-17f, -0x1.04320ep-16f, 0x1.9c34fap-16f, 0.0f) \
    R(0.0f, 0x1p+0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f) \
    R(0.0f, 0x1p+0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f) \
    R(0.0f, 0x1p+0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f) \
    R(0.0f, 0x1p+0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f) \
    R(0.0f, 0x1p+0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f) \
    R(0.0f, 0x1p+0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f) \
    R(0.0f, 0x1p+0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f) \
    R(0.0f, 0.0f, 0x1.06eba8p-3f, 0x1.4ea2b6p-22f, -0x1.812b88p-2f, 0x1.343a94p-12f, 0x1.c67682p-4f, 0.0f) \
    R(0.0f, 0.0f, 0x1.06eba8p-3f, 0x1.4ea2b6p-22f, -0x1.812b88p-2f, 0x1.343a94p-12f, 0x1.c67682p-4f, 0.0f) \
    R(0x1.3fff14p-3f, 0x1.662908p-3f, 0x1.19e5f4p+0f, -0x1.605e82p-3f, -0x1.65ad7ap-2f, 0x1.5b62fcp-4f, 0x1.d5bdp-3f, 0.0f) \
    R(0x1.c0002ep-3f, 0x1.f190dcp-3f, 0x1.135e2ep+0f, -0x1.e1e4dcp-3f, -0x1.4c1226p-2f, 0x1.d0b076p-4f, 0x1.f5821cp-4f, 0.0f) \
    R(0x1.2001f4p-2f, 0x1.3c9cb2p-2f, 0x1.0ae506p+0f, -0x1.2c43b6p-2f, -0x1.2b7a0ep-2f, 0x1.1c9954p-3f, 0x1.1ecbe2p-7f, 0.0f) \
    R(0x1.5fff8cp-2f, 0x1.7e152p-2f, 0x1.00abe4p+0f, -0x1.60ebfp-2f, -0x1.0589d4p-2f, 0x1.45894cp-3f, 0x1.9b948p-3f, 0.0f) \
    R(0x1.a000bcp-2f, 0x1.bcd0ap-2f, 0x1.e9d56p-1f, -0x1.8dfdfp-2f, -0x1.b590b2p-3f, 0x1.610432p-3f, 0x1.87ca7ap-5f, 0.0f) \
    R(0x1.dffe88p-2f, 0x1.f86e56p-2f, 0x1.cfc4bep-1f, -0x1.b2c722p-2f, -0x1.5aaa4ep-3f, 0x1.73268ap-3f, 0x1.13f16ap-5f, 0.0f) \
    R(0x1.20016p-1f, 0x1.25b9cap-1f, 0x1.a50608p-1f, -0x1.d9a904p-2f, -0x1.9c2f34p-4f, 0x1.75554ap-3f, -0x1.993faep-7f, 0.0f) \
    R(0x1.5ffcf8p-1f, 0x1.569022p-1f, 0x1.6822ep-1f, -0x1.ef2bacp-2f, -0x1.a3fd6ep-7f, 0x1.52e022p-3f, -0x1.727eacp-5f, 0.0f) \
    R(0x1.a0004cp-1f, 0x1.7fb9ecp-1f, 0x1.2a8d86p-1f, -0x1.e52654p-2f, 0x1.fe3b4ap-5f, 0x1.0f850ep-3f, -0x1.0ecap-4f, 0.0f) \
    R(0x1.e004dap-1f, 0x1.a1576p-1f, 0x1.dfc1ap-2f, -0x1.c1ca0ep-2f, 0x1.e4e324p-4f, 0x1.745282p-4f, -0x1.25b3fp-4f, 0.0f) \
    R(0x1.0ffdap+0f, 0x1.bbed54p-1f, 0x1.75b078p-2f, -0x1.8d08p-2f, 0x1.3952c6p-3f, 0x1.890914p-5f, -0x1.11c47cp-4f, 0.0f) \
    R(0x1.2ffe6p+0f, 0x1.d05726p-1f, 0x1.1a1206p-2f, -0x1.4ef3ap-2f, 0x1.564664p-3f, 0x1.43ec1ap-7f, -0x1.bc0374p-5f, 0.0f) \
    R(0x1.50015ap+0f, 0x1.df8676p-1f, 0x1.9cb006p-3f, -0x1.0ed49cp-2f, 0x1.5063ap-3f, -0x1.40451ep-6f, -0x1.396522p-5f, 0.0f) \
    R(0x1.6ffd48p+0f, 0x1.ea766ap-1f, 0x1.24b0a8p-3f, -0x1.a4bae6p-3f, 0x1.319faap-3f, -0x1.3cc542p-5f, -0x1.6f89fp-6f, 0.0f)
/* clang-format on */
