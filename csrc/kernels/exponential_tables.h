/* Tables of the exponential family. Made by fit/exponential.py. */
/* clang-format off */
/* 2^(j/16) */
static const float exp_t[16] = {
    0x1p+0f, 0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f,
    0x1.306fep+0f, 0x1.3dea64p+0f, 0x1.4bfdaep+0f, 0x1.5ab07ep+0f,
    0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f,
    0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f,
};
/* 2^(j/16) / EXP_T[j] - 1 */
static const float exp_p0[16] = {
    0.0f, 0x1.8d96d4p-25f, -0x1.9c0c22p-27f, 0x1.964904p-25f,
    0x1.125002p-25f, 0x1.370be4p-25f, -0x1.0a355p-25f, -0x1.00d8acp-27f,
    0x1.26055cp-26f, -0x1.05cb44p-25f, 0x1.67a1cap-28f, 0x1.a3b5e4p-28f,
    -0x1.f9c304p-27f, -0x1.6961b4p-28f, -0x1.a5217cp-28f, 0x1.61428ep-28f,
};
#define EXP_C1 0x1.62e43p-1f
#define EXP_C2 0x1.ebfffcp-3f
#define EXP_C3 0x1.c6ae0ap-5f
#define LOG2E_HI 0x1.715476p+0f /* log2(e) */
#define LOG2E_LO 0x1.4ae0cp-26f /* log2(e) - LOG2E_HI */
/* tanh u; less u at centre 0 */
#define TANH_SEGMENTS(R) \
    R(0x1.126ep-1f, 0x1.f5b5a4p-2f, 0x1.8517fap-1f, -0x1.7d45dcp-2f, -0x1.233e08p-4f, 0x1.44b18ap-3f, 0.0f, 0.0f) \
    R(0x1.5694p-1f, 0x1.2b34aap-1f, 0x1.512604p-1f, -0x1.8a0c72p-2f, 0x1.4b022cp-8f, 0x1.febef4p-4f, 0.0f, 0.0f) \
    R(0x1.9accp-1f, 0x1.54a7a8p-1f, 0x1.1d592cp-1f, -0x1.7bb4dp-2f, 0x1.f04aa8p-5f, 0x1.51e35p-4f, 0.0f, 0.0f) \
    R(0x1.e0b8p-1f, 0x1.782cfcp-1f, 0x1.d73beap-2f, -0x1.5a3958p-2f, 0x1.83fb6cp-4f, 0x1.5fe93p-5f, 0.0f, 0.0f) \
    R(0x1.13d4p+0f, 0x1.95a22cp-1f, 0x1.7d458ap-2f, -0x1.2e10bcp-2f, 0x1.c0077p-4f, 0x1.918d9p-7f, 0.0f, 0.0f) \
    R(0x1.34bep+0f, 0x1.abc46ap-1f, 0x1.35373ap-2f, -0x1.025818p-2f, 0x1.c28998p-4f, -0x1.04087p-7f, 0.0f, 0.0f) \
    R(0x1.573ep+0f, 0x1.be64acp-1f, 0x1.eb3a2cp-3f, -0x1.ac4834p-3f, 0x1.a30d32p-4f, -0x1.3fce3ap-6f, 0.0f, 0.0f) \
    R(0x1.79afp+0f, 0x1.cd19f6p-1f, 0x1.82f2fep-3f, -0x1.5c7b78p-3f, 0x1.719ff4p-4f, -0x1.919afap-6f, 0.0f, 0.0f) \
    R(0x1.ae1ep+0f, 0x1.dda28p-1f, 0x1.09b1eep-3f, -0x1.efb97cp-4f, 0x1.1d8ea2p-4f, -0x1.92ffp-6f, 0.0f, 0.0f) \
    R(0x1.f036p+0f, 0x1.eb3698p-1f, 0x1.45d5a6p-4f, -0x1.389d32p-4f, 0x1.7f793p-5f, -0x1.3b10e2p-6f, 0.0f, 0.0f) \
    R(0x1.1c91p+1f, 0x1.f422fp-1f, 0x1.773b36p-5f, -0x1.6e866p-5f, 0x1.d368dep-6f, -0x1.ab452ep-7f, 0.0f, 0.0f) \
    R(0x1.3ca2p+1f, 0x1.f8c766p-1f, 0x1.cae2fap-6f, -0x1.c46f94p-6f, 0x1.262428p-6f, -0x1.11952cp-7f, 0.0f, 0.0f) \
    R(0x1.5ebdp+1f, 0x1.fbbfe2p-1f, 0x1.0ee5aap-6f, -0x1.0caa22p-6f, 0x1.619c74p-7f, -0x1.500d88p-8f, 0.0f, 0.0f) \
    R(0x1.8362p+1f, 0x1.fd991cp-1f, 0x1.32b86ap-7f, -0x1.31456ep-7f, 0x1.94e9bcp-8f, -0x1.915858p-9f, 0.0f, 0.0f) \
    R(0x1.a53p+1f, 0x1.fe9512p-1f, 0x1.6a6c2cp-8f, -0x1.696a56p-8f, 0x1.e14f7cp-9f, -0x1.ddbd9cp-10f, 0.0f, 0.0f) \
    R(0x1.c6c2p+1f, 0x1.ff2916p-1f, 0x1.ad785ap-9f, -0x1.acc6e8p-9f, 0x1.1e29dp-9f, -0x1.1a9f8p-10f, 0.0f, 0.0f) \
    R(0x1.fd26p+1f, 0x1.ffa416p-1f, 0x1.6f7342p-10f, -0x1.6f0e9cp-10f, 0x1.f19468p-11f, -0x1.fdf3bp-12f, 0.0f, 0.0f) \
    R(0x1.1ecep+2f, 0x1.ffde6cp-1f, 0x1.0c88b8p-11f, -0x1.0c946ap-11f, 0x1.6c2d6ap-12f, -0x1.629c2ap-13f, 0.0f, 0.0f) \
    R(0x1.4217p+2f, 0x1.fff4dap-1f, 0x1.64a82ep-13f, -0x1.64a7cp-13f, 0x1.e42456p-14f, -0x1.e2d1bap-15f, 0.0f, 0.0f) \
    R(0x1.648fp+2f, 0x1.fffc34p-1f, 0x1.e5e31p-15f, -0x1.e5e5d2p-15f, 0x1.49d7f4p-15f, -0x1.49d5p-16f, 0.0f, 0.0f) \
    R(0x1.85fcp+2f, 0x1.fffeaap-1f, 0x1.55ecd4p-16f, -0x1.560b6cp-16f, 0x1.d01fccp-17f, -0x1.c62c46p-18f, 0.0f, 0.0f) \
    R(0x1.a924p+2f, 0x1.ffff8ep-1f, 0x1.c7e44ap-18f, -0x1.c7b368p-18f, 0x1.357f42p-18f, -0x1.39ce24p-19f, 0.0f, 0.0f) \
    R(0x1.cc4cp+2f, 0x1.ffffdap-1f, 0x1.2fed54p-19f, -0x1.2f8a4ap-19f, 0x1.9c5a26p-20f, -0x1.b2018cp-21f, 0.0f, 0.0f) \
    R(0x1.ec62p+2f, 0x1.fffff2p-1f, 0x1.bcfa4cp-21f, -0x1.8b8e7ep-21f, 0x1.4be06cp-21f, -0x1.6252dp-20f, 0.0f, 0.0f) \
    R(0x1.1542p+3f, 0x1.fffffep-1f, 0x1.0002d2p-23f, -0x1.f70f84p-24f, 0x1.596436p-24f, -0x1.e4683p-25f, 0.0f, 0.0f) \
    R(0.0f, 0.0f, -0x1.68694cp-26f, 0x1.4febfp-17f, -0x1.561916p-2f, 0x1.243724p-6f, 0.0f, 0.0f) \
    R(0x1.9b18p-4f, 0x1.99b80ep-4f, 0x1.fae084p-1f, -0x1.959dbp-4f, -0x1.47a088p-2f, 0x1.06d28cp-4f, 0.0f, 0.0f) \
    R(0x1.5bp-3f, 0x1.57b798p-3f, 0x1.f19412p-1f, -0x1.4e08f6p-3f, -0x1.2f843cp-2f, 0x1.a88bfep-4f, 0.0f, 0.0f) \
    R(0x1.e4ecp-3f, 0x1.dc0ef2p-3f, 0x1.e455c2p-1f, -0x1.c255aep-3f, -0x1.0e6d9ep-2f, 0x1.12ae18p-3f, 0.0f, 0.0f) \
    R(0x1.34e6p-2f, 0x1.2bdb9p-2f, 0x1.d418acp-1f, -0x1.12251cp-2f, -0x1.cf75f8p-3f, 0x1.3e1d7cp-3f, 0.0f, 0.0f) \
    R(0x1.7748p-2f, 0x1.6755f8p-2f, 0x1.c0f3b8p-1f, -0x1.3b164p-2f, -0x1.79601p-3f, 0x1.563f6p-3f, 0.0f, 0.0f) \
    R(0x1.c0fcp-2f, 0x1.a643dap-2f, 0x1.a8ef88p-1f, -0x1.5e75a6p-2f, -0x1.15991cp-3f, 0x1.5b32dp-3f, 0.0f, 0.0f)
/* e^u - 1; less u at centre 0 */
#define EXPM1_SEGMENTS(R) \
    R(-0x1.80dcp-1f, -0x1.0e8dcep-1f, 0x1.e2e464p-2f, 0x1.e2e45ep-3f, 0x1.41ed8p-4f, 0x1.4223fcp-6f, 0x1.0228f6p-8f, 0.0f) \
    R(-0x1.ff98p-1f, -0x1.437f08p-1f, 0x1.7901fp-2f, 0x1.7901eap-3f, 0x1.f6ad46p-5f, 0x1.f707cep-7f, 0x1.922b5ap-9f, 0.0f) \
    R(-0x1.4032p+0f, -0x1.6d6be2p-1f, 0x1.25283cp-2f, 0x1.252834p-3f, 0x1.86e04p-5f, 0x1.873166p-7f, 0x1.3913b8p-9f, 0.0f) \
    R(-0x1.80d8p+0f, -0x1.8e221ep-1f, 0x1.c77788p-3f, 0x1.c77776p-4f, 0x1.2fa4ecp-5f, 0x1.2fecf4p-7f, 0x1.e6cf4cp-10f, 0.0f) \
    R(-0x1.c206p+0f, -0x1.a7ba6cp-1f, 0x1.61165p-3f, 0x1.611648p-4f, 0x1.d6c80cp-6f, 0x1.d72274p-8f, 0x1.7acb92p-10f, 0.0f) \
    R(-0x1.00dbp+1f, -0x1.bb2b7ep-1f, 0x1.135208p-3f, 0x1.135208p-4f, 0x1.6f17c2p-6f, 0x1.6f4adp-8f, 0x1.279438p-10f, 0.0f) \
    R(-0x1.209fp+1f, -0x1.ca4bfcp-1f, 0x1.ada02p-4f, 0x1.ada01ap-5f, 0x1.1e6a96p-6f, 0x1.1e9b7ep-8f, 0x1.cc5124p-11f, 0.0f) \
    R(-0x1.3ec1p+1f, -0x1.d58fb4p-1f, 0x1.53826p-4f, 0x1.538266p-5f, 0x1.c4aeb4p-7f, 0x1.c4d4dap-9f, 0x1.6590dep-11f, 0.0f) \
    R(-0x1.722p+1f, -0x1.e3972cp-1f, 0x1.c68d44p-5f, 0x1.c68cbcp-6f, 0x1.2f038ep-7f, 0x1.2fe04cp-9f, 0x1.effbfep-12f, 0.0f) \
    R(-0x1.ae3ep+1f, -0x1.ee3cf2p-1f, 0x1.1c30dep-5f, 0x1.1c308ap-6f, 0x1.7af09cp-8f, 0x1.7bfec4p-10f, 0x1.2adc9cp-12f, 0.0f) \
    R(-0x1.f0bcp+1f, -0x1.f56f4p-1f, 0x1.521802p-6f, 0x1.521796p-7f, 0x1.c2c632p-9f, 0x1.c41a9p-11f, 0x1.6d1f4p-13f, 0.0f) \
    R(-0x1.1828p+2f, -0x1.f99212p-1f, 0x1.9b7b8p-7f, 0x1.9b7bp-8f, 0x1.1251e8p-9f, 0x1.131f56p-11f, 0x1.b89ff8p-14f, 0.0f) \
    R(-0x1.3775p+2f, -0x1.fc0ebap-1f, 0x1.f8a2fep-8f, 0x1.f8a1f6p-9f, 0x1.506e0ep-10f, 0x1.51923p-12f, 0x1.0c1a2cp-14f, 0.0f) \
    R(-0x1.5835p+2f, -0x1.fda2fap-1f, 0x1.2e83p-8f, 0x1.2e82bap-9f, 0x1.9358d2p-11f, 0x1.947356p-13f, 0x1.43fbdp-15f, 0.0f) \
    R(-0x1.7864p+2f, -0x1.fe9216p-1f, 0x1.6dea04p-9f, 0x1.6dea2cp-10f, 0x1.e7dc06p-12f, 0x1.e8ce82p-14f, 0x1.8d0d96p-16f, 0.0f) \
    R(-0x1.98p+2f, -0x1.ff20b4p-1f, 0x1.be97fep-10f, 0x1.be961p-11f, 0x1.29b9dcp-12f, 0x1.2b26cep-14f, 0x1.de4e82p-17f, 0.0f) \
    R(-0x1.c8c6p+2f, -0x1.ff97cap-1f, 0x1.a0d83p-11f, 0x1.a0cffap-12f, 0x1.15d3eep-13f, 0x1.192148p-15f, 0x1.c7ab6ep-18f, 0.0f) \
    R(-0x1.0324p+3f, -0x1.ffd824p-1f, 0x1.3edfc8p-12f, 0x1.3ed9e2p-13f, 0x1.a94c72p-15f, 0x1.ae0516p-17f, 0x1.4d5972p-19f, 0.0f) \
    R(-0x1.2377p+3f, -0x1.fff17cp-1f, 0x1.d07fd2p-14f, 0x1.d07756p-15f, 0x1.35b8d6p-16f, 0x1.3938fap-18f, 0x1.eaeab2p-21f, 0.0f) \
    R(-0x1.4312p+3f, -0x1.fffa98p-1f, 0x1.59ffb8p-15f, 0x1.59f7p-16f, 0x1.cd7562p-18f, 0x1.d3119p-20f, 0x1.6ad8cp-22f, 0.0f) \
    R(-0x1.644cp+3f, -0x1.fffe16p-1f, 0x1.e9ffbp-17f, 0x1.e9e90cp-18f, 0x1.46a0e8p-19f, 0x1.4bcb2cp-21f, 0x1.090dc6p-23f, 0.0f) \
    R(-0x1.851p+3f, -0x1.ffff5p-1f, 0x1.5fff32p-18f, 0x1.5fe19p-19f, 0x1.d5687cp-21f, 0x1.df9f12p-23f, 0x1.73d102p-25f, 0.0f) \
    R(-0x1.a473p+3f, -0x1.ffffbep-1f, 0x1.07fefp-19f, 0x1.07dcd8p-20f, 0x1.601902p-22f, 0x1.6a02e8p-24f, 0x1.146d9cp-26f, 0.0f) \
    R(-0x1.c4d2p+3f, -0x1.ffffe8p-1f, 0x1.7ffeeap-21f, 0x1.7fda32p-22f, 0x1.000f2cp-23f, 0x1.060936p-25f, 0x1.93784ap-28f, 0.0f) \
    R(-0x1.f172p+3f, -0x1.fffffap-1f, 0x1.7e17eep-23f, 0x1.60d402p-24f, 0x1.c3f13p-26f, 0x1.cd563p-27f, 0x1.5324dep-28f, 0.0f) \
    R(-0x1.0b9ap+4f, -0x1.fffffep-1f, 0x1.95e6cp-25f, -0x1.3b5ddep-24f, -0x1.64cec6p-23f, -0x1.d1fb3ep-24f, -0x1.917756p-26f, 0.0f) \
    R(-0x1.3a33p+4f, -0x1p+0f, 0x1.24726ep-28f, 0x1.16eb66p-26f, -0x1.09334ap-27f, -0x1.fc88ep-27f, 0x1.531d7p-27f, 0.0f) \
    R(0.0f, 0.0f, -0x1.5eff58p-29f, 0x1.ffffdep-2f, 0x1.554cfp-3f, 0x1.53de84p-5f, 0x1.ec0f52p-8f, 0.0f) \
    R(0.0f, 0.0f, -0x1.5eff58p-29f, 0x1.ffffdep-2f, 0x1.554cfp-3f, 0x1.53de84p-5f, 0x1.ec0f52p-8f, 0.0f) \
    R(-0x1.3eecp-2f, -0x1.120952p-2f, 0x1.76fb56p-1f, 0x1.76fb58p-2f, 0x1.f4135p-4f, 0x1.f3e342p-6f, 0x1.b2211p-10f, 0.0f) \
    R(-0x1.c0a8p-2f, -0x1.6b478cp-2f, 0x1.4a5c3ap-1f, 0x1.4a5c36p-2f, 0x1.b87af2p-4f, 0x1.b8baacp-6f, 0x1.6069d8p-8f, 0.0f) \
    R(-0x1.1ff8p-1f, -0x1.b881bcp-2f, 0x1.23bf22p-1f, 0x1.23bf1ep-2f, 0x1.84fecep-4f, 0x1.853d96p-6f, 0x1.3799aep-8f, 0.0f)
/* 1 / (1 + e^u), c1 to c5 negated */
#define SIGMOID_SEGMENTS(R) \
    R(0.0f, 0x1p-1f, 0x1p-2f, 0x1.66691cp-25f, -0x1.555abcp-6f, 0x1.b59e3ep-17f, 0x1.0af32p-9f, 0.0f) \
    R(0x1.acep-2f, 0x1.96525p-2f, 0x1.ea3006p-3f, -0x1.94b2b6p-6f, -0x1.1cfefp-6f, 0x1.f50edp-9f, 0x1.5f68c8p-10f, 0.0f) \
    R(0x1.b04cp-1f, 0x1.33d6bp-2f, 0x1.ae970ep-3f, -0x1.5765p-5f, -0x1.2c2e8ap-7f, 0x1.5aae7p-8f, -0x1.b03a9ep-15f, 0.0f) \
    R(0x1.4c3p+0f, 0x1.b76f68p-3f, 0x1.59258p-3f, -0x1.8a0ff6p-5f, -0x1.49d686p-12f, 0x1.0bf65ap-8f, -0x1.d1c892p-11f, 0.0f) \
    R(0x1.ba26p+0f, 0x1.352718p-3f, 0x1.067c2cp-3f, -0x1.6e7a8cp-5f, 0x1.435cc8p-8f, 0x1.07b2cap-9f, -0x1.e69abp-11f, 0.0f) \
    R(0x1.13d4p+1f, 0x1.a9775p-4f, 0x1.7d457ap-4f, -0x1.2e1082p-5f, 0x1.c0e4bap-8f, 0x1.82f6ccp-12f, -0x1.3587c6p-11f, 0.0f) \
    R(0x1.4931p+1f, 0x1.22b6bp-4f, 0x1.0e148ap-4f, -0x1.cf7c7ep-6f, 0x1.b344cp-8f, -0x1.fcace4p-12f, -0x1.051404p-12f, 0.0f) \
    R(0x1.80e7p+1f, 0x1.81e98p-5f, 0x1.6fbb7ep-5f, -0x1.4d162ap-6f, 0x1.6642f2p-8f, -0x1.97f7bep-11f, -0x1.679786p-15f, 0.0f) \
    R(0x1.b7a8p+1f, 0x1.ff97p-6f, 0x1.ef9d9p-6f, -0x1.d0aa38p-7f, 0x1.0e7072p-8f, -0x1.89ff6ep-11f, 0x1.a9f4ccp-15f, 0.0f) \
    R(0x1.ec29p+1f, 0x1.570ecp-6f, 0x1.4fdfdep-6f, -0x1.41cf16p-7f, 0x1.88bf3p-9f, -0x1.437fdp-11f, 0x1.38bc52p-14f, 0.0f) \
    R(0x1.12778p+2f, 0x1.bba6p-7f, 0x1.b5a45p-7f, -0x1.a9ca86p-8f, 0x1.0c61c4p-9f, -0x1.dd07bap-12f, 0x1.212a6ep-14f, 0.0f) \
    R(0x1.2eac8p+2f, 0x1.1ee68p-7f, 0x1.1c637p-7f, -0x1.17687ap-8f, 0x1.67708cp-10f, -0x1.4e284ap-12f, 0x1.c756fp-15f, 0.0f) \
    R(0x1.4849p+2f, 0x1.81acfep-8f, 0x1.7f67f2p-8f, -0x1.7ae498p-9f, 0x1.ed49bap-11f, -0x1.d65b4ap-13f, 0x1.4b9722p-15f, 0.0f) \
    R(0x1.64ap+2f, 0x1.f06dfep-9f, 0x1.ee8ca8p-9f, -0x1.eacd68p-10f, 0x1.423d52p-11f, -0x1.38ec54p-13f, 0x1.d30058p-16f, 0.0f) \
    R(0x1.81068p+2f, 0x1.3ef3fcp-9f, 0x1.3e2d4cp-9f, -0x1.3ca0b4p-10f, 0x1.a209dcp-12f, -0x1.9a9c42p-14f, 0x1.412c78p-16f, 0.0f) \
    R(0x1.9c628p+2f, 0x1.a05be4p-10f, 0x1.9fb29ap-10f, -0x1.9e6046p-11f, 0x1.127d0cp-12f, -0x1.0f8a3cp-14f, 0x1.abcb2ep-17f, 0.0f) \
    R(0x1.b70c8p+2f, 0x1.12a3fap-10f, 0x1.125a5p-10f, -0x1.11c6fap-11f, 0x1.6b841p-13f, -0x1.69323p-15f, 0x1.19a36cp-17f, 0.0f) \
    R(0x1.d32a8p+2f, 0x1.62202ap-11f, 0x1.61e2eep-11f, -0x1.61685p-12f, 0x1.d5ef5cp-14f, -0x1.d45facp-16f, 0x1.745e3cp-18f, 0.0f) \
    R(0x1.edde8p+2f, 0x1.d2bfeap-12f, 0x1.d28abap-12f, -0x1.d22018p-13f, 0x1.363292p-14f, -0x1.35be82p-16f, 0x1.ebbc8p-19f, 0.0f) \
    R(0x1.04784p+3f, 0x1.31d01p-12f, 0x1.31b93ap-12f, -0x1.318b64p-13f, 0x1.96ed9ap-15f, -0x1.96d006p-17f, 0x1.40ae92p-19f, 0.0f) \
    R(0x1.11e98p+3f, 0x1.91e07ap-13f, 0x1.91ccc2p-13f, -0x1.91a512p-14f, 0x1.0b90eap-15f, -0x1.0bb4cp-17f, 0x1.a51be4p-20f, 0.0f) \
    R(0x1.20888p+3f, 0x1.fd00c8p-14f, 0x1.fcf0f8p-14f, -0x1.fcd102p-15f, 0x1.530a7ap-16f, -0x1.536e5ap-18f, 0x1.11acdap-20f, 0.0f) \
    R(0x1.2df8p+3f, 0x1.4e7fd2p-14f, 0x1.4e78fep-14f, -0x1.4e6b1cp-15f, 0x1.bdbea2p-17f, -0x1.be6bc6p-19f, 0x1.66725cp-21f, 0.0f) \
    R(0x1.3b44cp+3f, 0x1.b9816p-15f, 0x1.b97b6cp-15f, -0x1.b96f42p-16f, 0x1.263c44p-17f, -0x1.26b80cp-19f, 0x1.d23d3ep-22f, 0.0f) \
    R(0x1.4954cp+3f, 0x1.1c81a4p-15f, 0x1.1c7f2cp-15f, -0x1.1c7a06p-16f, 0x1.7b3f24p-18f, -0x1.7bfaa8p-20f, 0x1.3138d6p-22f, 0.0f) \
    R(0x1.56ef4p+3f, 0x1.73f786p-16f, 0x1.73f56ap-16f, -0x1.73f0fp-17f, 0x1.efdfd8p-19f, -0x1.f0dc42p-21f, 0x1.8e2ed6p-23f, 0.0f) \
    R(0x1.646d4p+3f, 0x1.e801acp-17f, 0x1.e7ffdap-17f, -0x1.e7fbeap-18f, 0x1.454f78p-19f, -0x1.45f368p-21f, 0x1.0275a4p-23f, 0.0f) \
    R(0x1.71ef4p+3f, 0x1.3ff74ap-17f, 0x1.3ff68p-17f, -0x1.3ff4c4p-18f, 0x1.aa9d9ap-20f, -0x1.ab6966p-22f, 0x1.4e7f08p-24f, 0.0f) \
    R(0x1.80088p+3f, 0x1.9be6a6p-18f, 0x1.9be6p-18f, -0x1.9be478p-19f, 0x1.129734p-20f, -0x1.132562p-22f, 0x1.b6cdbap-25f, 0.0f) \
    R(0x1.8dcc4p+3f, 0x1.0be83p-18f, 0x1.0be7eap-18f, -0x1.0be736p-19f, 0x1.6532d2p-21f, -0x1.65edf2p-23f, 0x1.1e5b5ep-25f, 0.0f) \
    R(0x1.9bf8cp+3f, 0x1.5812e8p-19f, 0x1.5812bp-19f, -0x1.581204p-20f, 0x1.cabbeep-22f, -0x1.cbae3p-24f, 0x1.7700ep-26f, 0.0f) \
    R(0x1.a89d4p+3f, 0x1.cf8deep-20f, 0x1.cf8db8p-20f, -0x1.cf8d06p-21f, 0x1.350b64p-22f, -0x1.35a70cp-24f, 0x1.e612acp-27f, 0.0f)
#define GELU_A_HI 0x1.98846p+0f /* 2 sqrt(2 / pi) to 20 bits */
#define GELU_A_LO -0x1.985794p-21f /* 2 sqrt(2 / pi) - GELU_A_HI */
#define GELU_B_HI 0x1.2444f2p-4f /* 0.044715 * 2 sqrt(2 / pi) */
#define GELU_B_LO 0x1.49b16ap-29f /* 0.044715 * 2 sqrt(2 / pi) - GELU_B_HI */
/* around the minimum of Gelu, approximate=tanh */
static const float gelu_tanh_valley[9] = {
    -0x1.8142ap-1f, 0x1.a9da5ap-9f, -0x1.5c3e54p-3f, 0x1.94f25cp-28f,
    0x1.b8baccp-3f, 0x1.088896p-3f, -0x1.025c98p-8f, -0x1.5cc7ccp-6f,
    -0x1.bf125cp-9f,
};
/* of Swish, alpha = 1 */
static const float swish_valley[9] = {
    -0x1.474974p+0f, 0x1.d7dbf4p-13f, -0x1.1d25dp-2f, 0x1.bdf6fap-27f,
    0x1.be141p-4f, 0x1.90099p-5f, 0x1.3495e2p-8f, 0x1.677fdcp-3f,
    0x1.ad4cacp-6f,
};
#define QUICK_ALPHA 0x1.b3b646p+0f /* QuickGelu's alpha */
/* of QuickGelu */
static const float quick_valley[9] = {
    -0x1.80974ap-1f, 0x1.2630ecp-6f, -0x1.4f12dcp-3f, 0x1.68d14ap-29f,
    0x1.7b9cdap-3f, 0x1.220176p-3f, 0x1.7d2868p-6f, -0x1.a27cp-6f,
    -0x1.ff403cp-7f,
};
/* clang-format on */
