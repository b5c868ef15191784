/*
 * Stand-in for libcuda.so.1: it counts and describes the devices of the invented machine.
 *
 * It cannot compute. What would load or launch returns 801 (not supported): a kernel that "ran" here would
 * be a lie. Memory can be held, not used: the NVML stand-in sees how much of which device. The environment is read by the first cuInit and never again, as in the
 * real driver.
 */
#include "enumerate.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

LABEL_AS_SIMULATED

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_SUPPORTED = 801,
    UNKNOWN = 999,
};

static struct machine machine;
static struct device *devices; /* by ordinal; a CUdevice is the ordinal */
static int device_count, loaded, init_code = NOT_INITIALIZED;
static pid_t init_pid;
static pthread_once_t load_once = PTHREAD_ONCE_INIT, init_once = PTHREAD_ONCE_INIT;

static void load(void) { loaded = machine_load(&machine); }

static void initialise(void)
{
    pthread_once(&load_once, load);
    init_pid = getpid();
    init_code = UNKNOWN;
    if (!loaded)
        return;
    struct timespec delay = {machine.cuinit_delay_ms / 1000, machine.cuinit_delay_ms % 1000 * 1000000L};
    nanosleep(&delay, NULL);
    while (machine.cuinit_hang)
        pause();
    init_code = machine.cuinit_code;
    if (init_code != SUCCESS)
        return;
    devices = malloc(sizeof *devices * ((size_t)machine.gpu_count + (size_t)machine.mig_count + 1));
    device_count = devices ? enumerate(&machine, getenv("CUDA_DEVICE_ORDER"), getenv("CUDA_VISIBLE_DEVICES"), devices) : -1;
    init_code = device_count > 0 ? SUCCESS : device_count == 0 ? NO_DEVICE : UNKNOWN;
}

/* An initialised driver does not survive a fork. */
static int state(void) { return init_code == SUCCESS && init_pid == getpid() ? SUCCESS : NOT_INITIALIZED; }

EXPORT int cuInit(unsigned flags)
{
    if (flags)
        return INVALID_VALUE;
    pthread_once(&init_once, initialise);
    return init_code == SUCCESS ? state() : init_code;
}

EXPORT int cuDriverGetVersion(int *version)
{
    pthread_once(&load_once, load);
    if (!version || !loaded)
        return version ? UNKNOWN : INVALID_VALUE;
    *version = machine.cuda;
    return SUCCESS;
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int error_text(int code, const char **out, int want_name)
{
    if (!out)
        return INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            *out = want_name ? errors[i].name : errors[i].text;
    return *out ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuGetErrorName(int code, const char **name) { return error_text(code, name, 1); }
EXPORT int cuGetErrorString(int code, const char **text) { return error_text(code, text, 0); }

/* ---- devices ---- */

#define NEED_DEVICE(device, pointer)                  \
    do {                                              \
        if (state() != SUCCESS)                       \
            return NOT_INITIALIZED;                   \
        if (!(pointer))                               \
            return INVALID_VALUE;                     \
        if ((device) < 0 || (device) >= device_count) \
            return INVALID_DEVICE;                    \
    } while (0)

static const struct gpu *gpu_of(int device) { return &machine.gpus[devices[device].gpu]; }
static const struct mig *mig_of(int device) { return device_mig(&machine, devices[device]); }

EXPORT int cuDeviceGetCount(int *count)
{
    if (state() != SUCCESS)
        return NOT_INITIALIZED;
    if (!count)
        return INVALID_VALUE;
    *count = device_count;
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    NEED_DEVICE(ordinal, device);
    *device = ordinal;
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *name, int length, int device)
{
    NEED_DEVICE(device, name && length > 0);
    machine_name(name, (size_t)length, gpu_of(device), mig_of(device));
    return SUCCESS;
}

/* The sixteen bytes behind the "GPU-" or "MIG-"; what is not there stays zero. */
static void uuid_bytes(const char *text, unsigned char *bytes)
{
    static const char hex[] = "0123456789abcdef";
    int digits = 0;
    memset(bytes, 0, 16);
    for (text += strlen(text) < 4 ? 0 : 4; *text && digits < 32; text++) {
        const char *digit = strchr(hex, *text | 0x20);
        if (!digit)
            continue;
        bytes[digits / 2] |= (unsigned char)((digit - hex) << (digits % 2 ? 0 : 4));
        digits++;
    }
}

EXPORT int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    NEED_DEVICE(device, uuid);
    uuid_bytes(mig_of(device) ? mig_of(device)->uuid : gpu_of(device)->uuid, uuid);
    return SUCCESS;
}

/* The first version names the GPU even where the device is one of its MIG instances. */
EXPORT int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    NEED_DEVICE(device, uuid);
    uuid_bytes(gpu_of(device)->uuid, uuid);
    return SUCCESS;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int length, int device)
{
    NEED_DEVICE(device, id);
    const struct gpu *gpu = gpu_of(device);
    int wanted = snprintf(id, length > 0 ? (size_t)length : 0, "%04X:%02X:%02X.0", gpu->domain, gpu->bus, gpu->device);
    return wanted < length ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuDeviceGetByPCIBusId(int *device, const char *id)
{
    unsigned domain, bus, slot;
    NEED_DEVICE(0, device && id);
    if (pci_parse(id, &domain, &bus, &slot))
        for (*device = 0; *device < device_count; ++*device) {
            const struct gpu *gpu = gpu_of(*device);
            if (gpu->domain == domain && gpu->bus == bus && gpu->device == slot)
                return SUCCESS;
        }
    return INVALID_VALUE;
}

static long long memory_mib(int device)
{
    return mig_of(device) ? mig_of(device)->memory_mib : gpu_of(device)->memory_mib;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    NEED_DEVICE(device, bytes);
    *bytes = (size_t)memory_mib(device) << 20;
    return SUCCESS;
}

/* What is free without a context to ask in: for the runtime shim. */
EXPORT int gpumap_sim_free_memory(size_t *bytes, int device)
{
    NEED_DEVICE(device, bytes);
    long long used = machine_used_mib(&machine, devices[device].gpu, devices[device].mig);
    *bytes = (size_t)(used < memory_mib(device) ? memory_mib(device) - used : 0) << 20;
    return SUCCESS;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    NEED_DEVICE(device, value);
    const struct gpu *gpu = gpu_of(device);
    switch (attribute) {
    case 1: *value = 1024; break;       /* threads a block, then its three sides */
    case 2: case 3: *value = 1024; break;
    case 4: *value = 64; break;
    case 5: *value = INT_MAX; break;    /* grid */
    case 6: case 7: *value = 65535; break;
    case 8: *value = 49152; break;      /* shared memory a block */
    case 10: *value = 32; break;        /* warp */
    case 12: *value = 65536; break;     /* registers a block */
    case 13: *value = gpu->clock_mhz * 1000; break;
    case 16: *value = mig_of(device) ? mig_of(device)->sm : gpu->sm; break;
    case 33: *value = (int)gpu->bus; break;
    case 34: *value = (int)gpu->device; break;
    case 39: *value = gpu->cc_major == 7 && gpu->cc_minor == 5 ? 1024 : 2048; break; /* threads an SM */
    case 41: *value = 1; break;         /* unified addressing */
    case 50: *value = (int)gpu->domain; break;
    case 75: *value = gpu->cc_major; break;
    case 76: *value = gpu->cc_minor; break;
    default: *value = 0; break;         /* integrated, TCC, compute mode, ... */
    }
    return attribute > 0 ? SUCCESS : INVALID_VALUE;
}

/* ---- what torch looks up when it starts CUDA ---- */

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    NEED_DEVICE(device, flags && active);
    *flags = 0;
    *active = 0;
    return SUCCESS;
}

/* ---- memory: held on a device by its primary context ---- */

enum { CONTEXT_MIB = 100, MOST_HELD = 256 };
static int contexts[256]; /* by ordinal: how often the primary context is retained */
static struct {
    unsigned long long address, bytes;
    int device;
} held[MOST_HELD];
static __thread int current = -1; /* the ordinal whose context is current; a CUcontext is ordinal + 1 */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long long held_bytes(int device)
{
    unsigned long long sum = 0;
    for (int i = 0; i < MOST_HELD; i++)
        sum += held[i].bytes && held[i].device == device ? held[i].bytes : 0;
    return sum;
}

/* Tell the NVML stand-in: the file is written aside and moved, so that it is always whole. */
static void tell_held(void)
{
    char folder[4096], path[4096], aside[4200];
    if (!machine_held_path(folder, sizeof folder, 0) || !machine_held_path(path, sizeof path, (unsigned)getpid()))
        return;
    mkdir(folder, 0700);
    snprintf(aside, sizeof aside, "%s/.%d", folder, (int)getpid());
    FILE *file = fopen(aside, "w");
    if (!file)
        return;
    for (int d = 0; d < device_count && d < 256; d++)
        if (contexts[d])
            fprintf(file, "%d %d %lld\n", devices[d].gpu, devices[d].mig, CONTEXT_MIB + (long long)(held_bytes(d) >> 20));
    fclose(file);
    rename(aside, path);
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    NEED_DEVICE(device, context && device < 256);
    pthread_mutex_lock(&memory_lock);
    contexts[device]++;
    tell_held();
    pthread_mutex_unlock(&memory_lock);
    *context = (void *)(size_t)(device + 1);
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    if (state() != SUCCESS || device < 0 || device >= device_count || device >= 256 || !contexts[device])
        return state() != SUCCESS ? NOT_INITIALIZED : INVALID_CONTEXT;
    pthread_mutex_lock(&memory_lock);
    if (--contexts[device] == 0)
        for (int i = 0; i < MOST_HELD; i++)
            if (held[i].device == device)
                held[i].bytes = 0;
    tell_held();
    pthread_mutex_unlock(&memory_lock);
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(void *context)
{
    if (state() != SUCCESS)
        return NOT_INITIALIZED;
    int device = (int)(size_t)context - 1;
    if (device >= device_count || (device >= 0 && !contexts[device]))
        return INVALID_CONTEXT;
    current = device;
    return SUCCESS;
}

EXPORT int cuCtxGetCurrent(void **context)
{
    if (!context)
        return INVALID_VALUE;
    *context = state() == SUCCESS && current >= 0 ? (void *)(size_t)(current + 1) : NULL;
    return state();
}

EXPORT int cuCtxGetDevice(int *device)
{
    if (state() != SUCCESS || current < 0)
        return state() != SUCCESS ? NOT_INITIALIZED : INVALID_CONTEXT;
    *device = current;
    return SUCCESS;
}

EXPORT int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    int code = OUT_OF_MEMORY;
    if (state() != SUCCESS || current < 0)
        return state() != SUCCESS ? NOT_INITIALIZED : INVALID_CONTEXT;
    if (!address || !bytes)
        return INVALID_VALUE;
    long long used = machine_used_mib(&machine, devices[current].gpu, devices[current].mig) + CONTEXT_MIB;
    pthread_mutex_lock(&memory_lock);
    used += (long long)((held_bytes(current) + bytes) >> 20);
    for (int i = 0; i < MOST_HELD && used <= memory_mib(current); i++)
        if (!held[i].bytes) {
            held[i].address = *address = 0x7f0000000000ull + ((unsigned long long)i << 40);
            held[i].bytes = bytes;
            held[i].device = current;
            code = SUCCESS;
            break;
        }
    tell_held();
    pthread_mutex_unlock(&memory_lock);
    return code;
}

EXPORT int cuMemFree_v2(unsigned long long address)
{
    int code = INVALID_VALUE;
    pthread_mutex_lock(&memory_lock);
    for (int i = 0; i < MOST_HELD; i++)
        if (held[i].bytes && held[i].address == address) {
            held[i].bytes = 0;
            code = SUCCESS;
        }
    tell_held();
    pthread_mutex_unlock(&memory_lock);
    return code;
}

#define CANNOT(name) \
    EXPORT int name(void); \
    EXPORT int name(void) { return NOT_SUPPORTED; }
CANNOT(cuModuleLoad) CANNOT(cuModuleLoadData) CANNOT(cuModuleLoadDataEx) CANNOT(cuModuleUnload)
CANNOT(cuModuleGetFunction) CANNOT(cuFuncGetAttribute) CANNOT(cuFuncSetAttribute) CANNOT(cuFuncSetCacheConfig)
CANNOT(cuLaunchKernel) CANNOT(cuLaunchKernelEx) CANNOT(cuLaunchCooperativeKernel)
CANNOT(cuOccupancyMaxActiveBlocksPerMultiprocessor) CANNOT(cuPointerGetAttribute) CANNOT(cuTensorMapEncodeTiled)
CANNOT(cuLinkCreate_v2) CANNOT(cuLinkAddData_v2) CANNOT(cuLinkAddFile_v2) CANNOT(cuLinkComplete) CANNOT(cuLinkDestroy)
CANNOT(cuMemAddressReserve) CANNOT(cuMemAddressFree) CANNOT(cuMemCreate) CANNOT(cuMemMap) CANNOT(cuMemUnmap)
CANNOT(cuMemRelease) CANNOT(cuMemSetAccess)

/* Names have moved to a second version; the caller asks for the plain one and means the newest. */
EXPORT int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status)
{
    char newest[128];
    (void)version, (void)flags;
    if (!symbol || !function)
        return INVALID_VALUE;
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    snprintf(newest, sizeof newest, "%s_v2", symbol);
    *function = self ? dlsym(self, newest) : NULL;
    if (self && !*function)
        *function = dlsym(self, symbol);
    if (self)
        dlclose(self);
    if (status)
        *status = *function ? 0 : 1; /* found, or symbol not found */
    return *function ? SUCCESS : NOT_FOUND;
}

EXPORT int cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}

/* ---- for the comparison of the two readings ---- */

/*
 * What a process with these two variables would see on this machine: the number of devices, and in `out`
 * by ordinal the GPU's position, plus (MIG index + 1) << 16 for an instance. -1: malformed machine, -2:
 * `out` is too small (it needs room for what is visible), -3: no memory. Faults of cuInit as a whole
 * (code, delay, hang) do not matter here. Reentrant; looks at no environment.
 */
EXPORT int gpumap_sim_enumerate(const char *machine_text, const char *device_order, const char *visible_devices, int *out,
                                int capacity)
{
    struct machine m;
    if (machine_parse(&m, machine_text))
        return -1;
    struct device *found = malloc(sizeof *found * ((size_t)m.gpu_count + (size_t)m.mig_count + 1));
    int count = found ? enumerate(&m, device_order, visible_devices, found) : -1;
    if (count < 0)
        count = -3;
    else if (count > capacity)
        count = -2;
    for (int i = 0; i < count; i++)
        out[i] = found[i].gpu | (found[i].mig + 1) << 16;
    free(found);
    machine_free(&m);
    return count;
}
