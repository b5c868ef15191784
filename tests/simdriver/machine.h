/*
 * The invented machine: what the NVML and the driver stand-in both read.
 *
 * A machine is a text of "key value" lines; the value runs to the end of the line, so names may contain
 * blanks. "gpu" starts a GPU and "mig UUID" an instance of it; the lines that follow belong to it. GPUs
 * are listed in NVML order; a GPU's place in that list is its "position".
 *
 *     driver 535.104.05        cuda 12020             default_order 1 0 2 3
 *     cuinit_code 0            cuinit_delay_ms 0      cuinit_hang 0           nvml_code 0
 *     shutdown_code 0          hide_pids 1 (NVML lists no process, as in most containers), 2 (it lists no amounts)
 *     gpu
 *       name Tesla T4          uuid GPU-...           pci 00000000:5E:00.0    cc 7.5
 *       sm 40                  clock_mhz 1590         memory_mib 15360        minor 0
 *       numa 0                 mig_mode 0             nvswitch 0 (NVLinks to a switch)
 *       fault lost | no_permission | unknown | operating_system | reset | lost_late
 *     mig MIG-...
 *       profile 3g.20gb        gi 1                   ci 0
 *       mig_memory_mib 19968   mig_sm 42              mig_index 0 (-1: its place under the GPU)
 *     process GPU MIG PID MIB  (MIG is -1 for a process on the whole GPU, MIB is -1 where NVML does not tell)
 *     link GPU GPU LEVEL NVLINKS  (LEVEL: a value of nvmlGpuTopologyLevel_t)
 *
 * (one key a line; they share lines here to save space.) An unknown key or a bad number makes the whole
 * text malformed: a typing error in a test must not become a different machine.
 *
 * Everything is static: each library has its own copy, and exports only what it means to.
 */
#ifndef GPUMAP_SIM_MACHINE_H
#define GPUMAP_SIM_MACHINE_H

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Whoever loads one of the stand-ins can tell by this symbol, and must say so where it shows a result. */
#define LABEL_AS_SIMULATED                                              \
    EXPORT extern const char gpumap_simulated_driver[];                 \
    const char gpumap_simulated_driver[] = "simulated";

enum fault {
    FAULT_NONE,
    FAULT_LOST,
    FAULT_NO_PERMISSION,
    FAULT_UNKNOWN,
    FAULT_OPERATING_SYSTEM,
    FAULT_RESET,
    FAULT_LOST_LATE, /* NVML gives the handle; every call with it says that the GPU is lost */
};

struct mig {
    const char *uuid, *profile;
    int gi, ci, sm, index; /* index: -1 = the place under its GPU */
    long long memory_mib;
};

struct gpu {
    const char *name, *uuid;
    unsigned domain, bus, device;
    int cc_major, cc_minor, sm, clock_mhz, minor, numa; /* minor and numa: -1 = not given */
    long long memory_mib;
    enum fault fault;
    int mig_mode, nvswitch;
    int mig_first, mig_count; /* a range of machine.migs */
};

struct process {
    int gpu, mig;
    unsigned pid;
    long long memory_mib;
};

struct link {
    int gpus[2];
    int level, nvlinks;
};

struct machine {
    char *text; /* the strings of all records point in here */
    const char *driver;
    int cuda, cuinit_code, cuinit_delay_ms, cuinit_hang, nvml_code, shutdown_code, hide_pids;
    struct gpu *gpus;
    struct mig *migs;
    struct process *processes;
    struct link *links;
    int *default_order; /* NULL: PCI order */
    int gpu_count, mig_count, process_count, link_count, order_count;
};

static void machine_free(struct machine *m)
{
    free(m->text);
    free(m->gpus);
    free(m->migs);
    free(m->processes);
    free(m->links);
    free(m->default_order);
    memset(m, 0, sizeof *m);
}

/* One more zeroed element at the end of *array; NULL when memory is out. Capacities are powers of two. */
static void *machine_append(void *array, int *count, size_t size)
{
    char *items = *(char **)array;
    if ((*count & (*count - 1)) == 0) {
        items = realloc(items, size * (*count ? 2 * (size_t)*count : 1));
        if (!items)
            return NULL;
        *(char **)array = items;
    }
    return memset(items + size * (size_t)(*count)++, 0, size);
}

/* A whole decimal number and nothing else. */
static int machine_number(const char *text, long long low, long long high, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *out >= low && *out <= high;
}

static int machine_int(const char *text, int low, int *out)
{
    long long value;
    if (!machine_number(text, low, INT_MAX, &value))
        return 0;
    *out = (int)value;
    return 1;
}

/* "[domain:]bus:device[.function]" in hex, as integers: the spelling differs from tool to tool. */
static int pci_parse(const char *text, unsigned *domain, unsigned *bus, unsigned *device)
{
    unsigned function = 0;
    int used = -1;
    *domain = 0;
    if (sscanf(text, "%x:%x:%x%n.%x%n", domain, bus, device, &used, &function, &used) < 3) {
        *domain = 0;
        used = -1;
        if (sscanf(text, "%x:%x%n.%x%n", bus, device, &used, &function, &used) < 2)
            return 0;
    }
    return used >= 0 && text[used] == '\0' && *bus <= 0xff && *device <= 0x1f;
}

/* Is the default order a permutation of the positions? */
static int machine_order_is_complete(const struct machine *m)
{
    int complete = m->order_count == m->gpu_count;
    char *seen = calloc((size_t)m->gpu_count + 1, 1);
    for (int i = 0; seen && complete && i < m->order_count; i++) {
        int position = m->default_order[i];
        complete = position < m->gpu_count && !seen[position];
        if (complete)
            seen[position] = 1;
    }
    complete = complete && seen;
    free(seen);
    return complete;
}

static int machine_line(struct machine *m, const char *key, char *value)
{
    struct gpu *gpu = m->gpu_count ? &m->gpus[m->gpu_count - 1] : NULL;
    struct mig *mig = gpu && gpu->mig_count ? &m->migs[m->mig_count - 1] : NULL;
#define KEY(name) if (strcmp(key, name) == 0)
    KEY("gpu") {
        if (!(gpu = machine_append(&m->gpus, &m->gpu_count, sizeof *gpu)))
            return 0;
        gpu->name = gpu->uuid = "";
        gpu->minor = gpu->numa = -1;
        gpu->mig_first = m->mig_count;
        return *value == '\0';
    }
    KEY("driver") return *(m->driver = value) != '\0';
    KEY("cuda") return machine_int(value, 0, &m->cuda);
    KEY("cuinit_code") return machine_int(value, 0, &m->cuinit_code);
    KEY("cuinit_delay_ms") return machine_int(value, 0, &m->cuinit_delay_ms);
    KEY("cuinit_hang") return machine_int(value, 0, &m->cuinit_hang);
    KEY("nvml_code") return machine_int(value, 0, &m->nvml_code);
    KEY("hide_pids") return machine_int(value, 0, &m->hide_pids);
    KEY("shutdown_code") return machine_int(value, 0, &m->shutdown_code);
    KEY("default_order") {
        char *rest = NULL;
        for (char *word = strtok_r(value, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            int *position = machine_append(&m->default_order, &m->order_count, sizeof *position);
            if (!position || !machine_int(word, 0, position))
                return 0;
        }
        return m->order_count > 0;
    }
    KEY("process") {
        int used = -1;
        struct process *p = machine_append(&m->processes, &m->process_count, sizeof *p);
        return p && sscanf(value, "%d %d %u %lld%n", &p->gpu, &p->mig, &p->pid, &p->memory_mib, &used) == 4 &&
               value[used] == '\0';
    }
    KEY("link") {
        int used = -1;
        struct link *l = machine_append(&m->links, &m->link_count, sizeof *l);
        return l && sscanf(value, "%d %d %d %d%n", &l->gpus[0], &l->gpus[1], &l->level, &l->nvlinks, &used) == 4 &&
               value[used] == '\0';
    }
    if (!gpu)
        return 0;
    KEY("name") return *(gpu->name = value) != '\0';
    KEY("uuid") return *(gpu->uuid = value) != '\0';
    KEY("pci") return pci_parse(value, &gpu->domain, &gpu->bus, &gpu->device);
    KEY("cc") {
        int used = -1;
        return sscanf(value, "%d.%d%n", &gpu->cc_major, &gpu->cc_minor, &used) == 2 && value[used] == '\0';
    }
    KEY("sm") return machine_int(value, 0, &gpu->sm);
    KEY("clock_mhz") return machine_int(value, 0, &gpu->clock_mhz);
    KEY("memory_mib") return machine_number(value, 0, 1LL << 40, &gpu->memory_mib);
    KEY("minor") return machine_int(value, 0, &gpu->minor);
    KEY("numa") return machine_int(value, 0, &gpu->numa);
    KEY("mig_mode") return machine_int(value, 0, &gpu->mig_mode);
    KEY("nvswitch") return machine_int(value, 0, &gpu->nvswitch);
    KEY("fault") {
        gpu->fault = strcmp(value, "lost") == 0               ? FAULT_LOST
                     : strcmp(value, "no_permission") == 0    ? FAULT_NO_PERMISSION
                     : strcmp(value, "unknown") == 0          ? FAULT_UNKNOWN
                     : strcmp(value, "operating_system") == 0 ? FAULT_OPERATING_SYSTEM
                     : strcmp(value, "reset") == 0            ? FAULT_RESET
                     : strcmp(value, "lost_late") == 0        ? FAULT_LOST_LATE
                                                              : FAULT_NONE;
        return gpu->fault != FAULT_NONE;
    }
    KEY("mig") {
        if (!(mig = machine_append(&m->migs, &m->mig_count, sizeof *mig)))
            return 0;
        gpu->mig_count++;
        mig->profile = "";
        mig->index = -1;
        return *(mig->uuid = value) != '\0';
    }
    if (!mig)
        return 0;
    KEY("profile") return *(mig->profile = value) != '\0';
    KEY("gi") return machine_int(value, 0, &mig->gi);
    KEY("ci") return machine_int(value, 0, &mig->ci);
    KEY("mig_memory_mib") return machine_number(value, 0, 1LL << 40, &mig->memory_mib);
    KEY("mig_sm") return machine_int(value, 0, &mig->sm);
    KEY("mig_index") return machine_int(value, -1, &mig->index);
#undef KEY
    return 0;
}

/* 0, or the number of the line that is wrong (the last one for what only the whole text shows). */
static int machine_parse(struct machine *m, const char *text)
{
    int number = 0;
    memset(m, 0, sizeof *m);
    m->driver = "575.57.08";
    m->cuda = 13000;
    if (!(m->text = strdup(text)))
        return 1;
    for (char *line = m->text, *next; line; line = next) {
        number++;
        if ((next = strchr(line, '\n')))
            *next++ = '\0';
        line += strspn(line, " \t");
        if (*line == '\0' || *line == '#')
            continue;
        char *value = line + strcspn(line, " ");
        if (*value)
            *value++ = '\0';
        if (!machine_line(m, line, value)) {
            machine_free(m);
            return number;
        }
    }
    int good = !m->default_order || machine_order_is_complete(m);
    for (int i = 0; i < m->process_count; i++) {
        const struct process *p = &m->processes[i];
        good = good && p->gpu >= 0 && p->gpu < m->gpu_count && p->mig >= -1 && p->mig < m->gpus[p->gpu].mig_count;
    }
    for (int i = 0; i < m->link_count; i++)
        for (int end = 0; end < 2; end++)
            good = good && m->links[i].gpus[end] >= 0 && m->links[i].gpus[end] < m->gpu_count;
    if (good)
        return 0;
    machine_free(m);
    return number;
}

/* The machine of this process, from the file that GPUMAP_SIM_MACHINE names. Says why when it cannot. */
static int machine_load(struct machine *m)
{
    const char *path = getenv("GPUMAP_SIM_MACHINE");
    FILE *file = path ? fopen(path, "rb") : NULL;
    char *text = NULL;
    size_t length = 0, got = 0;
    while (file) { /* until the end, with room for the closing zero */
        char *larger = realloc(text, length + 65536);
        if (!larger)
            break;
        text = larger;
        got = fread(text + length, 1, 65535, file);
        length += got;
        text[length] = '\0';
        if (got < 65535)
            break;
    }
    if (file)
        fclose(file);
    if (!text) {
        fprintf(stderr, "simulated driver: no machine file at GPUMAP_SIM_MACHINE=%s\n", path ? path : "(unset)");
        return 0;
    }
    int wrong = machine_parse(m, text);
    if (wrong)
        fprintf(stderr, "simulated driver: %s, line %d is malformed\n", path, wrong);
    free(text);
    return !wrong;
}

/* MiB that the processes of the machine file hold on a GPU, or on one instance of it (mig >= 0). */
static long long machine_used_mib(const struct machine *m, int gpu, int mig)
{
    long long used = 0;
    for (int i = 0; i < m->process_count; i++)
        if (m->processes[i].gpu == gpu && (mig < 0 || m->processes[i].mig == mig) && m->processes[i].memory_mib > 0)
            used += m->processes[i].memory_mib;
    return used;
}

/*
 * Memory that live processes hold: each leaves a file named by its PID beside the machine file, in FILE.held/,
 * a line "GPU MIG MIB" for each device that it holds something on.
 */
static int machine_held_path(char *buffer, size_t size, unsigned pid)
{
    const char *path = getenv("GPUMAP_SIM_MACHINE");
    int length = path ? pid ? snprintf(buffer, size, "%s.held/%u", path, pid) : snprintf(buffer, size, "%s.held", path) : 0;
    return length > 0 && (size_t)length < size;
}

/* "NVIDIA A100-SXM4-40GB" or "NVIDIA A100-SXM4-40GB MIG 3g.20gb": NVML and CUDA name instances alike. */
static int machine_name(char *buffer, size_t size, const struct gpu *gpu, const struct mig *mig)
{
    return mig ? snprintf(buffer, size, "%s MIG %s", gpu->name, mig->profile)
               : snprintf(buffer, size, "%s", gpu->name);
}

#endif
