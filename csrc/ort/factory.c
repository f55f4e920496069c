/* Registration: the two exported entry points, the factory and the provider it creates. */
#include "ort/ep.h"

#include "run/cpu.h"
#include "run/ops.h"
#include "run/packs.h"

#include <stdlib.h>
#include <string.h>

OrtStatus *ow_status(const ow_host *host, ortwin_status status, const ortwin_error *error) {
    int bad_argument = status != ORTWIN_OUT_OF_MEMORY && status != ORTWIN_HOST_FAILED;
    return ORT(host, api, CreateStatus, (bad_argument ? ORT_INVALID_ARGUMENT : ORT_FAIL, error->text));
}

OrtStatus *ow_no_memory_status(const ow_host *host) {
    return ORT(host, api, CreateStatus, (ORT_FAIL, "ortwin: out of memory"));
}

static char *copy_string(ow_tally *tally, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = ow_alloc(tally, OW_allocations_register, size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- options of one session ---- */

static OrtStatus *bad_option(const ow_ep *ep, const char *key, const char *value, const char *rule) {
    ortwin_error error;
    ow_fail(&error, ORTWIN_MISUSE, "%s: option %.64s='%.128s': %s", ep->factory->name, key, value, rule);
    return ow_status(&ep->host, ORTWIN_MISUSE, &error);
}

static OrtStatus *choose_isa(ow_ep *ep, const char *name) {
    const ow_isa *isa;
    ortwin_error error;
    ortwin_status status = ow_choose_isa(name, &isa, &error);
    if (status)
        return ow_status(&ep->host, status, &error);
    ep->isa = isa->kernels->isa;
    return NULL;
}

static OrtStatus *take_option(ow_ep *ep, const char *key, const char *value) {
    if (strcmp(key, "isa") == 0)
        return choose_isa(ep, value);
    if (strcmp(key, "threads") == 0) {
        char *end;
        long threads = *value >= '0' && *value <= '9' ? strtol(value, &end, 10) : -1;
        if (strcmp(value, "auto") == 0)
            threads = 0;
        else if (threads < 0 || threads > ORTWIN_MAX_THREADS || *end)
            return bad_option(ep, key, value, "a number from 0 to 1024, or auto, is needed");
        ep->threads = (int32_t)threads;
        return NULL;
    }
    if (strcmp(key, "nbits_level") == 0) {
        if (*value < '0' || *value > '4' || value[1])
            return bad_option(ep, key, value, "a number from 0 to 4 is needed");
        ep->nbits_exact = *value < '4';
        return NULL;
    }
    if (strcmp(key, "report") == 0) {
        if (ep->report)
            fclose(ep->report);
        ep->report = fopen(value, "w");
        return ep->report ? NULL : bad_option(ep, key, value, "the file can't be written");
    }
    if (strcmp(key, "group") == 0) {
        ep->node_by_node = strcmp(value, "node") == 0;
        if (!ep->node_by_node && strcmp(value, "graph") != 0)
            return bad_option(ep, key, value, "graph or node is needed");
        return NULL;
    }
    if (strcmp(key, "pack_bytes") == 0) {
        ep->pack_bytes_given = true;
        return ow_read_bytes(value, &ep->pack_bytes) ? NULL : bad_option(ep, key, value, OW_BYTES_RULE);
    }
    return bad_option(ep, key, value, "unknown option; there are isa, threads, report, group, pack_bytes, nbits_level");
}

/* ONNX Runtime hands EP options over as session config "ep.<lowercased EP name>.<key>". */
static const char *option_key(const char *entry, const char *ep_name) {
    if (strncmp(entry, "ep.", 3) != 0)
        return NULL;
    entry += 3;
    for (; *ep_name; entry++, ep_name++) {
        char c = *ep_name;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (*entry != c)
            return NULL;
    }
    /* A second dot: the entry is of a provider whose name continues ours. */
    return *entry == '.' && !strchr(entry + 1, '.') ? entry + 1 : NULL;
}

static OrtStatus *read_options(ow_ep *ep, const OrtSessionOptions *options) {
    const ow_host *host = &ep->host;
    OrtKeyValuePairs *pairs = NULL;
    ORT_TRY(ORT(host, api, GetSessionOptionsConfigEntries, (options, &pairs)));
    const char *const *keys = NULL, *const *values = NULL;
    size_t count = 0;
    ORT(host, api, GetKeyValuePairs, (pairs, &keys, &values, &count));
    OrtStatus *status = NULL;
    for (size_t k = 0; k < count && !status; k++) {
        const char *key = option_key(keys[k], ep->factory->name);
        if (key)
            status = take_option(ep, key, values[k]);
    }
    ORT(host, api, ReleaseKeyValuePairs, (pairs));
    if (status)
        return status;
    if (!ep->isa)
        ORT_TRY(choose_isa(ep, NULL));
    if (ep->pack_bytes_given) /* now that no option is wrong: it is the process's budget */
        ow_pack_budget(ep->pack_bytes);
    return NULL;
}

/* ---- the provider ---- */

static const char *ep_name(const OrtEp *ep) { return ((const ow_ep *)ep)->factory->name; }

static OrtStatus *concurrent_runs(OrtEp *ep, bool *supported) {
    (void)ep;
    *supported = true; /* a sealed plan is immutable, a Run's state is in its frame */
    return NULL;
}

static void release_ep(OrtEpFactory *factory, OrtEp *base) {
    (void)factory;
    ow_ep *ep = (ow_ep *)base;
    if (!ep)
        return;
    if (ep->report)
        fclose(ep->report);
    ow_trace_end(ep->trace);
    ow_tally_close(&ep->tally);
    free(ep);
}

static OrtStatus *create_ep(OrtEpFactory *base, const OrtHardwareDevice *const *devices,
                            const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
                            const OrtLogger *logger, OrtEp **made) {
    (void)devices, (void)metadata, (void)count; /* there is one kind of device: the CPU */
    ow_factory *factory = (ow_factory *)base;
    *made = NULL;
    ow_ep *ep = ow_alloc(&factory->tally, OW_allocations_register, 1, sizeof *ep);
    if (!ep)
        return ow_no_memory_status(&factory->host);
    ow_tally_open(&ep->tally, 0);
    ep->host = factory->host;
    ep->host.tally = &ep->tally;
    ep->trace = ow_trace_new(factory->name);
    ep->base.ort_version_supported = factory->host.version;
    ep->base.GetName = ep_name;
    ep->base.GetCapability = ow_get_capability;
    ep->base.Compile = ow_compile;
    ep->base.ReleaseNodeComputeInfos = ow_release_compute_infos;
    ep->base.IsConcurrentRunSupported = concurrent_runs;
    ep->factory = factory;
    ep->logger = logger;
    OrtStatus *status = read_options(ep, options);
    if (status) {
        release_ep(base, &ep->base);
        return status;
    }
    *made = &ep->base;
    return NULL;
}

/* ---- the factory ---- */

static const char *factory_name(const OrtEpFactory *factory) { return ((const ow_factory *)factory)->name; }
static const char *factory_vendor(const OrtEpFactory *factory) {
    (void)factory;
    return "ortwin";
}
static uint32_t factory_vendor_id(const OrtEpFactory *factory) {
    (void)factory;
    return 0; /* no PCI vendor */
}
static const char *factory_version(const OrtEpFactory *factory) {
    (void)factory;
    return ORTWIN_VERSION;
}
static OrtStatus *no_data_transfer(OrtEpFactory *factory, OrtDataTransferImpl **out) {
    (void)factory;
    *out = NULL; /* everything is in CPU memory */
    return NULL;
}
static bool not_stream_aware(const OrtEpFactory *factory) {
    (void)factory;
    return false;
}

static OrtStatus *supported_devices(OrtEpFactory *base, const OrtHardwareDevice *const *devices, size_t count,
                                    OrtEpDevice **found, size_t room, size_t *found_count) {
    const ow_host *host = &((ow_factory *)base)->host;
    *found_count = 0;
    for (size_t k = 0; k < count && *found_count < room; k++) {
        if (ORT(host, api, HardwareDevice_Type, (devices[k])) != ORT_HARDWARE_DEVICE_CPU)
            continue;
        ORT_TRY(ORT(host, ep_api, CreateEpDevice, (base, devices[k], NULL, NULL, &found[*found_count])));
        ++*found_count;
        break; /* one device: a second CPU entry would only make the choice ambiguous */
    }
    return NULL;
}

/* The newest API we know that the host grants. GetApi prints when asked for more than it has, so the version string
 * ("1.32.0") is asked first. */
static uint32_t negotiate(const OrtApiBase *host, const OrtApi **api) {
    const char *text = host->GetVersionString();
    unsigned long minor = OW_API_NEWEST;
    if (text && strncmp(text, "1.", 2) == 0)
        minor = strtoul(text + 2, NULL, 10);
    for (uint32_t version = OW_API_NEWEST; version >= OW_API_OLDEST; version--) {
        *api = version <= minor ? host->GetApi(version) : NULL;
        if (*api)
            return version;
    }
    return 0;
}

ORTWIN_EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *host, const OrtLogger *logger,
                                           OrtEpFactory **factories, size_t room, size_t *count);
ORTWIN_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);

/* What a Run reads the shapes of its inputs with: one call, or five. NULL if the host has either. */
static const char *lacks_shapes(ow_host *host) {
    const OrtApi *api = host->api;
    host->shape_reference = host->version >= OW_API_SHAPES && api->GetTensorElementTypeAndShapeDataReference;
    bool five = api->GetTensorTypeAndShape && api->GetTensorElementType && api->GetDimensionsCount &&
                api->GetDimensions && api->ReleaseTensorTypeAndShapeInfo;
    return host->shape_reference || five
               ? NULL
               : "ortwin: this ONNX Runtime has neither GetTensorElementTypeAndShapeDataReference "
                 "nor GetTensorTypeAndShape with what belongs to it";
}

static OrtStatus *create_factory(ow_host host, const char *name, size_t room, ow_factory **made) {
    const char *lack = lacks_shapes(&host);
    if (lack)
        return ORT(&host, api, CreateStatus, (ORT_FAIL, lack));
    if (room < 1)
        return ORT(&host, api, CreateStatus, (ORT_INVALID_ARGUMENT, "ortwin: no room for a factory"));
    ow_factory *factory = ow_alloc(host.tally, OW_allocations_register, 1, sizeof *factory);
    char *copied = copy_string(host.tally, name);
    if (!factory || !copied) {
        free(factory);
        free(copied);
        return ow_no_memory_status(&host);
    }
    ow_tally_open(&factory->tally, 1); /* sessions may be made from several threads at once */
    host.ep_api = ORT(&host, api, GetEpApi, ());
    host.tally = &factory->tally;
    factory->host = host;
    factory->name = copied;
    factory->base.ort_version_supported = host.version;
    factory->base.GetName = factory_name;
    factory->base.GetVendor = factory_vendor;
    factory->base.GetSupportedDevices = supported_devices;
    factory->base.CreateEp = create_ep;
    factory->base.ReleaseEp = release_ep;
    factory->base.GetVendorId = factory_vendor_id;
    factory->base.GetVersion = factory_version;
    factory->base.CreateDataTransfer = no_data_transfer;
    factory->base.IsStreamAware = not_stream_aware;
    *made = factory;
    return NULL;
}

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **factories, size_t room, size_t *count) {
    (void)logger;
    *count = 0;
    ow_tally tally; /* until there is a factory to count for */
    ow_host host = {.tally = &tally};
    host.version = negotiate(base, &host.api);
    ow_factory *factory = NULL;
    OrtStatus *status = NULL;
    ow_tally_open(&tally, 0);
    if (host.version)
        status = create_factory(host, name, room, &factory);
    else if ((host.api = base->GetApi(1))) { /* CreateStatus is slot 0 of every version, so it can carry the message */
        ortwin_error error;
        ow_fail(&error, ORTWIN_UNSUPPORTED, "ortwin needs ONNX Runtime 1.%d or newer; this is %s", OW_API_OLDEST,
                base->GetVersionString());
        status = ORT(&host, api, CreateStatus, (ORT_FAIL, error.text));
    }
    ow_tally_close(&tally);
    if (factory) {
        factories[0] = &factory->base;
        *count = 1;
    }
    return status;
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *base) {
    ow_factory *factory = (ow_factory *)base;
    if (factory) {
        ow_tally_close(&factory->tally);
        free(factory->name);
    }
    free(factory);
    return NULL;
}
