/*
 * Stand-in for libnvidia-ml.so.1: the management library's view of the invented machine.
 *
 * It knows nothing of CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER, as the real one. Its index is the
 * position in the machine file. A faulty GPU keeps its index and its place in the count; asking for its
 * handle returns the fault (for lost_late: any later call does).
 */
#include "machine.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>

LABEL_AS_SIMULATED

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    OPERATING_SYSTEM = 17,
    VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

/* What an nvmlDevice_t points to. */
struct handle {
    int gpu, mig;
};

static struct machine machine;
static struct handle *gpu_handles, *mig_handles;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;

static int initialise(void)
{
    int code = SUCCESS;
    pthread_mutex_lock(&lock);
    if (!gpu_handles) { /* handles and strings stay valid for the life of the process */
        if (!machine_load(&machine)) {
            code = UNKNOWN;
        } else {
            gpu_handles = calloc((size_t)machine.gpu_count + 1, sizeof *gpu_handles);
            mig_handles = calloc((size_t)machine.mig_count + 1, sizeof *mig_handles);
            for (int i = 0; i < machine.gpu_count; i++) {
                gpu_handles[i] = (struct handle){i, -1};
                for (int k = 0; k < machine.gpus[i].mig_count; k++)
                    mig_handles[machine.gpus[i].mig_first + k] = (struct handle){i, k};
            }
        }
    }
    if (code == SUCCESS)
        code = machine.nvml_code;
    if (code == SUCCESS)
        users++;
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int nvmlInit(void) { return initialise(); }
EXPORT int nvmlInit_v2(void) { return initialise(); }
EXPORT int nvmlInitWithFlags(unsigned flags) { return (void)flags, initialise(); }

EXPORT int nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    int code = users ? machine.shutdown_code : UNINITIALIZED;
    users -= users > 0;
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT const char *nvmlErrorString(int code)
{
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case RESET_REQUIRED: return "GPU requires reset";
    case OPERATING_SYSTEM: return "The operating system has blocked the request.";
    case 18: return "Driver/library version mismatch";
    case VERSION_MISMATCH: return "Argument version mismatch";
    case UNKNOWN: return "Unknown Error";
    default: return "Unknown Error code";
    }
}

#define NEED(condition, code) do { if (!(condition)) return code; } while (0)
#define NEED_INIT NEED(users > 0, UNINITIALIZED)
#define NEED_DEVICE(h) NEED_INIT; NEED(h, INVALID_ARGUMENT); NEED(gpu_of(h)->fault != FAULT_LOST_LATE, GPU_IS_LOST)

static const struct gpu *gpu_of(const struct handle *h) { return &machine.gpus[h->gpu]; }

static const struct mig *mig_of(const struct handle *h)
{
    return h->mig < 0 ? NULL : &machine.migs[gpu_of(h)->mig_first + h->mig];
}

static int copy(const char *text, char *buffer, unsigned length)
{
    NEED(buffer, INVALID_ARGUMENT);
    NEED(strlen(text) < length, INSUFFICIENT_SIZE);
    strcpy(buffer, text);
    return SUCCESS;
}

static int fault_code(const struct gpu *gpu)
{
    switch (gpu->fault) {
    case FAULT_LOST: return GPU_IS_LOST;
    case FAULT_NO_PERMISSION: return NO_PERMISSION;
    case FAULT_UNKNOWN: return UNKNOWN;
    case FAULT_OPERATING_SYSTEM: return OPERATING_SYSTEM;
    case FAULT_RESET: return RESET_REQUIRED;
    default: return SUCCESS;
    }
}

/* ---- the system ---- */

EXPORT int nvmlSystemGetDriverVersion(char *buffer, unsigned length)
{
    NEED_INIT;
    return copy(machine.driver, buffer, length);
}

EXPORT int nvmlSystemGetNVMLVersion(char *buffer, unsigned length)
{
    char text[64];
    NEED_INIT;
    snprintf(text, sizeof text, "%d.%s", machine.cuda / 1000, machine.driver);
    return copy(text, buffer, length);
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *version)
{
    NEED_INIT;
    NEED(version, INVALID_ARGUMENT);
    *version = machine.cuda;
    return SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

/* ---- finding a device ---- */

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    NEED_INIT;
    NEED(count, INVALID_ARGUMENT);
    *count = (unsigned)machine.gpu_count;
    return SUCCESS;
}

static int by_position(int position, struct handle **handle)
{
    int code = fault_code(&machine.gpus[position]);
    NEED(handle, INVALID_ARGUMENT);
    if (code == SUCCESS)
        *handle = &gpu_handles[position];
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct handle **handle)
{
    NEED_INIT;
    NEED(index < (unsigned)machine.gpu_count, INVALID_ARGUMENT);
    return by_position((int)index, handle);
}

/* The first version of the two leaves out what the caller may not open, so its indices differ. */
EXPORT int nvmlDeviceGetCount(unsigned *count)
{
    NEED_INIT;
    NEED(count, INVALID_ARGUMENT);
    *count = 0;
    for (int i = 0; i < machine.gpu_count; i++)
        *count += machine.gpus[i].fault != FAULT_NO_PERMISSION;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, struct handle **handle)
{
    NEED_INIT;
    for (int i = 0; i < machine.gpu_count; i++)
        if (machine.gpus[i].fault != FAULT_NO_PERMISSION && index-- == 0)
            return by_position(i, handle);
    return INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct handle **handle)
{
    NEED_INIT;
    NEED(uuid && handle, INVALID_ARGUMENT);
    for (int i = 0; i < machine.gpu_count; i++) {
        const struct gpu *gpu = &machine.gpus[i];
        if (strcmp(gpu->uuid, uuid) == 0)
            return by_position(i, handle);
        for (int k = 0; gpu->mig_mode && gpu->fault == FAULT_NONE && k < gpu->mig_count; k++)
            if (strcmp(machine.migs[gpu->mig_first + k].uuid, uuid) == 0) {
                *handle = &mig_handles[gpu->mig_first + k];
                return SUCCESS;
            }
    }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct handle **handle)
{
    unsigned domain, bus, device;
    NEED_INIT;
    NEED(id && pci_parse(id, &domain, &bus, &device), INVALID_ARGUMENT);
    for (int i = 0; i < machine.gpu_count; i++) {
        const struct gpu *gpu = &machine.gpus[i];
        if (gpu->domain == domain && gpu->bus == bus && gpu->device == device)
            return by_position(i, handle);
    }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetHandleByPciBusId(const char *id, struct handle **handle)
{
    return nvmlDeviceGetHandleByPciBusId_v2(id, handle);
}

/* ---- what a device is ---- */

static int mig_index(const struct handle *h) { return mig_of(h)->index < 0 ? h->mig : mig_of(h)->index; }

EXPORT int nvmlDeviceGetIndex(const struct handle *h, unsigned *index)
{
    NEED_DEVICE(h);
    NEED(index, INVALID_ARGUMENT);
    *index = (unsigned)(h->mig < 0 ? h->gpu : mig_index(h));
    return SUCCESS;
}

EXPORT int nvmlDeviceGetName(const struct handle *h, char *buffer, unsigned length)
{
    char name[256];
    NEED_DEVICE(h);
    machine_name(name, sizeof name, gpu_of(h), mig_of(h));
    return copy(name, buffer, length);
}

EXPORT int nvmlDeviceGetUUID(const struct handle *h, char *buffer, unsigned length)
{
    NEED_DEVICE(h);
    return copy(mig_of(h) ? mig_of(h)->uuid : gpu_of(h)->uuid, buffer, length);
}

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(const struct handle *h, struct pci_info *info)
{
    NEED_DEVICE(h);
    NEED(info, INVALID_ARGUMENT);
    const struct gpu *gpu = gpu_of(h);
    memset(info, 0, sizeof *info);
    info->domain = gpu->domain;
    info->bus = gpu->bus;
    info->device = gpu->device;
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", gpu->domain, gpu->bus, gpu->device);
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0", gpu->domain & 0xffff,
             gpu->bus & 0xff, gpu->device & 0xff);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMinorNumber(const struct handle *h, unsigned *minor)
{
    NEED_DEVICE(h);
    NEED(minor, INVALID_ARGUMENT);
    *minor = (unsigned)(gpu_of(h)->minor < 0 ? h->gpu : gpu_of(h)->minor);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNumaNodeId(const struct handle *h, unsigned *node)
{
    NEED_DEVICE(h);
    NEED(node, INVALID_ARGUMENT);
    NEED(gpu_of(h)->numa >= 0, NOT_SUPPORTED);
    *node = (unsigned)gpu_of(h)->numa;
    return SUCCESS;
}

/* The node of the host's memory that is nearest, as a bit mask; the one above is for GPUs that are nodes themselves. */
EXPORT int nvmlDeviceGetMemoryAffinity(const struct handle *h, unsigned words, unsigned long *set, unsigned scope)
{
    const unsigned bits = 8 * sizeof *set;
    NEED_DEVICE(h);
    NEED(set && words && scope <= 1, INVALID_ARGUMENT);
    NEED(gpu_of(h)->numa >= 0, NOT_SUPPORTED);
    NEED((unsigned)gpu_of(h)->numa < words * bits, INSUFFICIENT_SIZE);
    memset(set, 0, words * sizeof *set);
    set[(unsigned)gpu_of(h)->numa / bits] = 1ul << ((unsigned)gpu_of(h)->numa % bits);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(const struct handle *h, int *major, int *minor)
{
    NEED_DEVICE(h);
    NEED(major && minor, INVALID_ARGUMENT);
    *major = gpu_of(h)->cc_major;
    *minor = gpu_of(h)->cc_minor;
    return SUCCESS;
}

/* FP32 units of a multiprocessor by compute capability. */
static int cores_per_sm(int major, int minor)
{
    if (major == 3)
        return 192;
    if (major == 7 || (major == 6 && minor == 0) || (major == 8 && minor == 0))
        return 64;
    return 128;
}

EXPORT int nvmlDeviceGetNumGpuCores(const struct handle *h, unsigned *cores)
{
    NEED_DEVICE(h);
    NEED(cores, INVALID_ARGUMENT);
    NEED(h->mig < 0, NOT_SUPPORTED);
    *cores = (unsigned)(gpu_of(h)->sm * cores_per_sm(gpu_of(h)->cc_major, gpu_of(h)->cc_minor));
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxClockInfo(const struct handle *h, int type, unsigned *mhz)
{
    NEED_DEVICE(h);
    NEED(mhz, INVALID_ARGUMENT);
    NEED(type == 0 || type == 1, NOT_SUPPORTED); /* graphics and SM */
    *mhz = (unsigned)gpu_of(h)->clock_mhz;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeMode(const struct handle *h, int *mode)
{
    NEED_DEVICE(h);
    NEED(mode, INVALID_ARGUMENT);
    *mode = 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(const struct handle *h, unsigned *gpu_and_memory)
{
    NEED_DEVICE(h);
    NEED(gpu_and_memory, INVALID_ARGUMENT);
    NEED(h->mig < 0, NOT_SUPPORTED);
    gpu_and_memory[0] = gpu_and_memory[1] = 0;
    return SUCCESS;
}

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(const struct handle *h, struct memory *memory)
{
    NEED_DEVICE(h);
    NEED(memory, INVALID_ARGUMENT);
    long long total = mig_of(h) ? mig_of(h)->memory_mib : gpu_of(h)->memory_mib;
    long long used = machine_used_mib(&machine, h->gpu, h->mig);
    used = used < total ? used : total;
    memory->total = (unsigned long long)total << 20;
    memory->used = (unsigned long long)used << 20;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(const struct handle *h, struct memory_v2 *memory)
{
    struct memory plain;
    NEED(memory, INVALID_ARGUMENT);
    NEED(memory->version == (sizeof *memory | 2u << 24), VERSION_MISMATCH);
    int code = nvmlDeviceGetMemoryInfo(h, &plain);
    if (code == SUCCESS) {
        memory->total = plain.total;
        memory->reserved = 0;
        memory->free = plain.free;
        memory->used = plain.used;
    }
    return code;
}

/* ---- processes: one routine for the two layouts that the three versions have ---- */

struct process_v1 {
    unsigned pid;
    unsigned long long used;
};

struct process_v2 {
    unsigned pid;
    unsigned long long used;
    unsigned gi, ci; /* all ones for a process on a whole GPU */
};

struct listing {
    const struct handle *handle;
    unsigned room, found;
    struct process_v1 *v1;
    struct process_v2 *v2;
};

static void list_one(struct listing *to, int gpu, int place, unsigned pid, long long mib)
{
    const struct handle *h = to->handle;
    if (gpu != h->gpu || (h->mig >= 0 && place != h->mig) || machine.hide_pids == 1)
        return;
    const struct mig *mig = place < 0 ? NULL : &machine.migs[gpu_of(h)->mig_first + place];
    unsigned long long used = mib < 0 || machine.hide_pids == 2 ? ~0ull : (unsigned long long)mib << 20;
    if (to->found < to->room && to->v1)
        to->v1[to->found] = (struct process_v1){pid, used};
    else if (to->found < to->room && to->v2)
        to->v2[to->found] = (struct process_v2){pid, used, mig ? (unsigned)mig->gi : ~0u, mig ? (unsigned)mig->ci : ~0u};
    to->found++;
}

/* The processes that hold memory through the driver stand-in; one that has died holds none. */
static void list_held(struct listing *to)
{
    char path[4096];
    DIR *folder = machine_held_path(path, sizeof path, 0) ? opendir(path) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        long pid = strtol(entry->d_name, NULL, 10);
        FILE *file = pid > 0 && kill((pid_t)pid, 0) == 0 && machine_held_path(path, sizeof path, (unsigned)pid) ? fopen(path, "r") : NULL;
        int gpu, mig;
        long long mib;
        while (file && fscanf(file, "%d %d %lld", &gpu, &mig, &mib) == 3)
            list_one(to, gpu, mig, (unsigned)pid, mib);
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
}

static int list_processes(const struct handle *h, unsigned *count, struct process_v1 *v1, struct process_v2 *v2)
{
    NEED_DEVICE(h);
    NEED(count, INVALID_ARGUMENT);
    struct listing to = {h, *count, 0, v1, v2};
    for (int i = 0; i < machine.process_count; i++) {
        const struct process *p = &machine.processes[i];
        list_one(&to, p->gpu, p->mig, p->pid, p->memory_mib);
    }
    list_held(&to);
    *count = to.found;
    return to.found > to.room ? INSUFFICIENT_SIZE : SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses(const struct handle *h, unsigned *count, struct process_v1 *infos)
{
    return list_processes(h, count, infos, NULL);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(const struct handle *h, unsigned *count, struct process_v2 *infos)
{
    return list_processes(h, count, NULL, infos);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const struct handle *h, unsigned *count, struct process_v2 *infos)
{
    return list_processes(h, count, NULL, infos);
}

/* All processes compute, none draws. */
static int no_processes(const struct handle *h, unsigned *count)
{
    NEED_DEVICE(h);
    NEED(count, INVALID_ARGUMENT);
    *count = 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses(const struct handle *h, unsigned *count, struct process_v1 *infos)
{
    return (void)infos, no_processes(h, count);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v2(const struct handle *h, unsigned *count, struct process_v2 *infos)
{
    return (void)infos, no_processes(h, count);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(const struct handle *h, unsigned *count, struct process_v2 *infos)
{
    return (void)infos, no_processes(h, count);
}

/* ---- links ---- */

static const struct link *link_of(int a, int b)
{
    for (int i = 0; i < machine.link_count; i++) {
        const int *ends = machine.links[i].gpus;
        if ((ends[0] == a && ends[1] == b) || (ends[0] == b && ends[1] == a))
            return &machine.links[i];
    }
    return NULL;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(const struct handle *a, const struct handle *b, unsigned *level)
{
    NEED_DEVICE(a);
    NEED_DEVICE(b);
    NEED(level, INVALID_ARGUMENT);
    const struct link *link = link_of(a->gpu, b->gpu);
    NEED(link, NOT_SUPPORTED);
    *level = (unsigned)link->level;
    return SUCCESS;
}

/* The other end of a GPU's NVLink: a position, -1 for the switch, -2 where there is no such link. */
static int nvlink_end(const struct handle *h, unsigned number)
{
    unsigned seen = 0;
    for (int i = 0; i < machine.link_count; i++)
        for (int end = 0; end < 2; end++)
            if (machine.links[i].gpus[end] == h->gpu && number < (seen += (unsigned)machine.links[i].nvlinks))
                return machine.links[i].gpus[1 - end];
    return number < seen + (unsigned)gpu_of(h)->nvswitch ? -1 : -2;
}

EXPORT int nvmlDeviceGetNvLinkState(const struct handle *h, unsigned number, unsigned *active)
{
    NEED_DEVICE(h);
    NEED(active, INVALID_ARGUMENT);
    NEED(nvlink_end(h, 0) != -2, NOT_SUPPORTED);
    NEED(nvlink_end(h, number) != -2, INVALID_ARGUMENT);
    *active = 1;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct handle *h, unsigned number, struct pci_info *info)
{
    NEED_DEVICE(h);
    int end = nvlink_end(h, number);
    NEED(info && end != -2, INVALID_ARGUMENT);
    if (end >= 0)
        return nvmlDeviceGetPciInfo_v3(&gpu_handles[end], info);
    memset(info, 0, sizeof *info);
    info->domain = 0xffff; /* no GPU of any test stands there */
    strcpy(info->bus_id, "0000FFFF:05:00.0");
    return SUCCESS;
}

/* Of the capabilities only NVLink: 0 for two GPUs that reach each other by it, 5 where it is not supported. */
EXPORT int nvmlDeviceGetP2PStatus(const struct handle *a, const struct handle *b, unsigned capability, unsigned *status)
{
    NEED_DEVICE(a);
    NEED_DEVICE(b);
    NEED(status && capability <= 5, INVALID_ARGUMENT);
    const struct link *link = link_of(a->gpu, b->gpu);
    int direct = link && link->nvlinks > 0, switched = gpu_of(a)->nvswitch && gpu_of(b)->nvswitch;
    *status = capability == 2 && (direct || switched) ? 0 : 5;
    return SUCCESS;
}

/* ---- MIG ---- */

static int knows_mig(const struct gpu *gpu)
{
    return gpu->mig_mode || (gpu->cc_major == 8 && gpu->cc_minor == 0) || gpu->cc_major == 9 || gpu->cc_major == 10;
}

EXPORT int nvmlDeviceGetMigMode(const struct handle *h, unsigned *current, unsigned *pending)
{
    NEED_DEVICE(h);
    NEED(current && pending && h->mig < 0, INVALID_ARGUMENT);
    NEED(knows_mig(gpu_of(h)), NOT_SUPPORTED);
    *current = *pending = (unsigned)gpu_of(h)->mig_mode;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(const struct handle *h, unsigned *count)
{
    NEED_DEVICE(h);
    NEED(count && h->mig < 0, INVALID_ARGUMENT);
    int most = gpu_of(h)->mig_mode ? 7 : 0;
    for (int k = 0; k < gpu_of(h)->mig_count; k++) {
        int index = mig_index(&mig_handles[gpu_of(h)->mig_first + k]);
        most = index + 1 > most ? index + 1 : most;
    }
    *count = (unsigned)most;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(const struct handle *h, unsigned index, struct handle **mig)
{
    NEED_DEVICE(h);
    NEED(mig && h->mig < 0, INVALID_ARGUMENT);
    for (int k = 0; gpu_of(h)->mig_mode && k < gpu_of(h)->mig_count; k++) {
        *mig = &mig_handles[gpu_of(h)->mig_first + k];
        if (mig_index(*mig) == (int)index)
            return SUCCESS;
    }
    *mig = NULL;
    return NOT_FOUND;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(const struct handle *h, unsigned *is_mig)
{
    NEED_DEVICE(h);
    NEED(is_mig, INVALID_ARGUMENT);
    *is_mig = h->mig >= 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceId(const struct handle *h, unsigned *id)
{
    NEED_DEVICE(h);
    NEED(id && mig_of(h), INVALID_ARGUMENT);
    *id = (unsigned)mig_of(h)->gi;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeInstanceId(const struct handle *h, unsigned *id)
{
    NEED_DEVICE(h);
    NEED(id && mig_of(h), INVALID_ARGUMENT);
    *id = (unsigned)mig_of(h)->ci;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const struct handle *h, struct handle **parent)
{
    NEED_DEVICE(h);
    NEED(parent && mig_of(h), INVALID_ARGUMENT);
    *parent = &gpu_handles[h->gpu];
    return SUCCESS;
}

struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
};

/* "3g.20gb" has three slices in both counts; "1c.3g.20gb" is one compute slice of three. */
EXPORT int nvmlDeviceGetAttributes_v2(const struct handle *h, struct attributes *out)
{
    unsigned compute = 0, slices = 0;
    NEED_DEVICE(h);
    NEED(out && mig_of(h), INVALID_ARGUMENT);
    if (sscanf(mig_of(h)->profile, "%uc.%ug", &compute, &slices) != 2) {
        sscanf(mig_of(h)->profile, "%ug", &slices);
        compute = slices;
    }
    memset(out, 0, sizeof *out);
    out->multiprocessors = (unsigned)mig_of(h)->sm;
    out->gpu_slices = slices;
    out->compute_slices = compute;
    out->memory_mb = (unsigned long long)mig_of(h)->memory_mib;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetAttributes(const struct handle *h, struct attributes *out)
{
    return nvmlDeviceGetAttributes_v2(h, out);
}
