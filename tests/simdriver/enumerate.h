/*
 * How CUDA numbers the devices of a machine: a reading in C of CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES.
 *
 * Written from the facts alone, never from the Python model: the two readings are compared with each
 * other, and that is a test only while neither was copied from the other. Rules nobody has a source for
 * are marked "guess".
 */
#ifndef GPUMAP_SIM_ENUMERATE_H
#define GPUMAP_SIM_ENUMERATE_H

#include "machine.h"

/* A whole GPU (mig = -1) or one MIG instance of it (mig = its NVML index under the GPU). */
struct device {
    int gpu, mig;
};

enum { MAX_MIG_DEVICES = 64 }; /* "at most 64 MIG instances" in one process (R570 and later) */

struct enumeration {
    const struct machine *m;
    int r570;          /* several MIG devices in one process, and whole GPUs beside them */
    int *order;        /* positions of the usable GPUs in CUDA_DEVICE_ORDER order: what integers index */
    int usable;
    char *named;       /* by position, then by MIG instance: was it in the list already? */
    struct device *out;
    int count;
    int migs[MAX_MIG_DEVICES], mig_count; /* places in out that hold MIG devices */
};

static const struct mig *device_mig(const struct machine *m, struct device d)
{
    return d.mig < 0 ? NULL : &m->migs[m->gpus[d.gpu].mig_first + d.mig];
}

/*
 * CUDA enumerates neither a GPU it cannot open nor one in MIG mode without an instance, and (guess) such
 * a GPU keeps no integer: nothing is known about holes in the numbering.
 */
static int is_usable(const struct gpu *gpu)
{
    return gpu->fault == FAULT_NONE && !(gpu->mig_mode && gpu->mig_count == 0);
}

struct slot {
    unsigned domain, bus, device;
    int position;
};

static int by_pci(const void *left, const void *right)
{
    const struct slot *a = left, *b = right;
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    if (a->bus != b->bus)
        return a->bus < b->bus ? -1 : 1;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return a->position - b->position;
}

/* Only the exact value PCI_BUS_ID is documented; anything else is taken (guess) for the default order. */
static int sort_gpus(struct enumeration *e, const char *device_order)
{
    const struct machine *m = e->m;
    struct slot *slots = malloc(sizeof *slots * ((size_t)m->gpu_count + 1));
    int count = 0;
    if (!slots)
        return 0;
    int own_order = m->default_order && !(device_order && strcmp(device_order, "PCI_BUS_ID") == 0);
    for (int i = 0; i < m->gpu_count; i++) {
        int position = own_order ? m->default_order[i] : i;
        const struct gpu *gpu = &m->gpus[position];
        if (is_usable(gpu))
            slots[count++] = (struct slot){gpu->domain, gpu->bus, gpu->device, position};
    }
    if (!own_order)
        qsort(slots, (size_t)count, sizeof *slots, by_pci);
    for (int i = 0; i < count; i++)
        e->order[i] = slots[i].position;
    e->usable = count;
    free(slots);
    return 1;
}

/* One compute instance of every GPU instance: of several, the first that comes stays. */
static void add(struct enumeration *e, struct device d)
{
    const struct mig *mig = device_mig(e->m, d);
    if (mig) {
        for (int i = 0; i < e->mig_count; i++) {
            struct device other = e->out[e->migs[i]];
            if (other.gpu == d.gpu && device_mig(e->m, other)->gi == mig->gi)
                return;
        }
        if (e->mig_count == MAX_MIG_DEVICES)
            return;
        e->migs[e->mig_count++] = e->count;
    }
    e->out[e->count++] = d;
}

/* CUDA_VISIBLE_DEVICES unset. Instances stand where their GPU stands (guess: no order is documented). */
static void add_all(struct enumeration *e)
{
    for (int i = 0; i < e->usable; i++) {
        const struct gpu *gpu = &e->m->gpus[e->order[i]];
        if (!gpu->mig_mode)
            add(e, (struct device){e->order[i], -1});
        for (int k = 0; gpu->mig_mode && k < gpu->mig_count; k++)
            add(e, (struct device){e->order[i], k});
    }
}

static int has_prefix(const char *text, size_t length, const char *prefix)
{
    return length >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

/*
 * The number at the head of a token: blanks, a sign, digits in base 10; the tail is ignored, so "1gpu2"
 * is 1. Returns -1 for no number, a negative one, or one that no machine has ("-0" is 0, and a number
 * beyond every integer type is merely too large).
 */
static int leading_number(const char *token, size_t length)
{
    size_t i = 0, digits;
    long long value = 0;
    while (i < length && strchr(" \t\n\v\f\r", token[i]))
        i++;
    int negative = i < length && token[i] == '-';
    if (i < length && (token[i] == '-' || token[i] == '+'))
        i++;
    for (digits = i; i < length && token[i] >= '0' && token[i] <= '9'; i++)
        if (value <= INT_MAX)
            value = value * 10 + (token[i] - '0');
    return i == digits || value > INT_MAX || (negative && value) ? -1 : (int)value;
}

/* The one usable GPU whose UUID starts with this; -1 when there is none or more than one. */
static int gpu_by_prefix(const struct enumeration *e, const char *prefix, size_t length)
{
    int found = -1;
    if (length <= strlen("GPU-") || !has_prefix(prefix, length, "GPU-"))
        return -1; /* "GPU-" alone names nothing (guess) */
    for (int i = 0; i < e->usable; i++) {
        if (strncmp(e->m->gpus[e->order[i]].uuid, prefix, length) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = e->order[i];
    }
    return found;
}

/* "12" and nothing else, up to the end of the token or a stop character. */
static int whole_number(const char **text, const char *end, char stop)
{
    long long value = 0;
    const char *start = *text;
    while (*text < end && **text >= '0' && **text <= '9' && value <= INT_MAX)
        value = value * 10 + (*(*text)++ - '0');
    int stopped = stop ? *text < end && *(*text)++ == stop : *text == end;
    return *text == start || !stopped || value > INT_MAX ? -1 : (int)value;
}

/* "MIG-<uuid>", complete, or the older "MIG-GPU-<uuid or its head>/<gpu instance>/<compute instance>". */
static struct device mig_by_token(const struct enumeration *e, const char *token, size_t length)
{
    const struct machine *m = e->m;
    const char *end = token + length, *slash = memchr(token, '/', length);
    for (int i = 0; i < e->usable; i++) {
        const struct gpu *gpu = &m->gpus[e->order[i]];
        for (int k = 0; gpu->mig_mode && k < gpu->mig_count; k++) {
            const char *uuid = m->migs[gpu->mig_first + k].uuid;
            if (strlen(uuid) == length && memcmp(uuid, token, length) == 0)
                return (struct device){e->order[i], k};
        }
    }
    const char *parent = token + strlen("MIG-");
    if (!slash || slash < parent)
        return (struct device){-1, -1};
    int position = gpu_by_prefix(e, parent, (size_t)(slash - parent));
    const char *numbers = slash + 1;
    int gi = whole_number(&numbers, end, '/');
    int ci = gi < 0 ? -1 : whole_number(&numbers, end, '\0');
    if (position >= 0 && ci >= 0 && m->gpus[position].mig_mode) {
        const struct gpu *gpu = &m->gpus[position];
        for (int k = 0; k < gpu->mig_count; k++)
            if (m->migs[gpu->mig_first + k].gi == gi && m->migs[gpu->mig_first + k].ci == ci)
                return (struct device){position, k};
    }
    return (struct device){-1, -1};
}

/* The device a token names, with gpu = -1 when it is invalid. `family` is the prefix of the whole list. */
static struct device read_token(const struct enumeration *e, const char *family, const char *token, size_t length)
{
    struct device d = {-1, -1};
    if (*family && !has_prefix(token, length, family))
        return d; /* a token of another kind is invalid in this list */
    if (strcmp(family, "MIG-") == 0)
        return mig_by_token(e, token, length);
    if (*family) {
        d.gpu = gpu_by_prefix(e, token, length);
    } else {
        int number = leading_number(token, length);
        if (number >= 0 && number < e->usable)
            d.gpu = e->order[number];
    }
    /* A GPU in MIG mode stands for its first instance: documented before R570, a guess from there on. */
    if (d.gpu >= 0 && e->m->gpus[d.gpu].mig_mode)
        d.mig = 0;
    return d;
}

/* A list ends at its first invalid token; a device named twice before that empties all of it. */
static void add_listed(struct enumeration *e, const char *list)
{
    const char *family = strncmp(list, "GPU-", 4) == 0 ? "GPU-" : strncmp(list, "MIG-", 4) == 0 ? "MIG-" : "";
    for (const char *token = list;; token++) {
        size_t length = strcspn(token, ",");
        struct device d = read_token(e, family, token, length);
        if (d.gpu < 0)
            return;
        char *named = d.mig < 0 ? &e->named[d.gpu] : &e->named[e->m->gpu_count + e->m->gpus[d.gpu].mig_first + d.mig];
        if (*named) {
            e->count = e->mig_count = 0;
            return;
        }
        *named = 1;
        add(e, d);
        token += length;
        if (*token == '\0')
            return;
    }
}

/*
 * Fills out (room for every GPU and instance) with the visible devices by ordinal and returns their
 * number, or -1 when memory is out. Before R570 a process had one MIG device and then nothing else.
 */
static int enumerate(const struct machine *m, const char *device_order, const char *visible, struct device *out)
{
    struct enumeration e = {.m = m, .r570 = atoi(m->driver) >= 570, .out = out};
    e.order = malloc(sizeof *e.order * ((size_t)m->gpu_count + 1));
    e.named = calloc((size_t)m->gpu_count + (size_t)m->mig_count + 1, 1);
    int good = e.order && e.named && sort_gpus(&e, device_order);
    if (good && visible)
        add_listed(&e, visible);
    else if (good)
        add_all(&e);
    if (good && !e.r570 && e.mig_count) {
        out[0] = out[e.migs[0]];
        e.count = 1;
    }
    free(e.order);
    free(e.named);
    return good ? e.count : -1;
}

#endif
