/*
 * Shim for the CUDA runtime, to be preloaded: the part of libcudart with which torch counts and describes
 * devices, answered from the driver stand-in. An unversioned definition that is there first satisfies
 * torch's reference to libcudart's versioned one. Everything else still comes from the real runtime.
 *
 * It opens libcuda.so.1 at the first call, never at load: in a process without CUDA it does nothing.
 * Compiled against the CUDA headers of the environment, so structures are laid out as torch expects.
 * The real runtime refuses a driver older than itself; this one does not, so that any machine can be
 * looked at with the torch at hand.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT extern const char gpumap_simulated_driver[];
const char gpumap_simulated_driver[] = "simulated";

static struct {
    void *library;
    int (*init)(unsigned), (*version)(int *), (*count)(int *), (*name)(char *, int, int), (*uuid)(void *, int);
    int (*memory)(size_t *, int), (*free_memory)(size_t *, int), (*attribute)(int *, int, int);
    int (*bus_id)(char *, int, int), (*by_bus_id)(int *, const char *);
} driver;
static pthread_once_t open_once = PTHREAD_ONCE_INIT;
static __thread int current;
static __thread cudaError_t last;

static int find(const char *name, void *function)
{
    void *found = dlsym(driver.library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static void open_driver(void)
{
    driver.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver.library &&
        !(find("cuInit", &driver.init) && find("cuDriverGetVersion", &driver.version) &&
          find("cuDeviceGetCount", &driver.count) && find("cuDeviceGetName", &driver.name) &&
          find("cuDeviceGetUuid_v2", &driver.uuid) && find("cuDeviceTotalMem_v2", &driver.memory) &&
          find("gpumap_sim_free_memory", &driver.free_memory) && find("cuDeviceGetAttribute", &driver.attribute) &&
          find("cuDeviceGetPCIBusId", &driver.bus_id) && find("cuDeviceGetByPCIBusId", &driver.by_bus_id)))
        driver.library = NULL;
}

/* The codes used here are the same numbers in the driver's and the runtime's enumeration. */
static cudaError_t done(int code)
{
    if (code)
        last = (cudaError_t)code;
    return (cudaError_t)code;
}

static cudaError_t begin(void)
{
    pthread_once(&open_once, open_driver);
    return done(driver.library ? driver.init(0) : cudaErrorInsufficientDriver);
}

static int attribute(int number, int device)
{
    int value = 0;
    driver.attribute(&value, number, device);
    return value;
}

EXPORT cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last;
    last = cudaSuccess;
    return code;
}

EXPORT cudaError_t cudaPeekAtLastError(void) { return last; }

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
    pthread_once(&open_once, open_driver);
    *version = 0;
    return driver.library ? done(driver.version(version)) : cudaSuccess;
}

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    cudaError_t code = begin();
    return code ? code : done(driver.count(count));
}

EXPORT cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return begin();
}

EXPORT cudaError_t cudaSetDevice(int device)
{
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (!code && (device < 0 || device >= count))
        code = done(cudaErrorInvalidDevice);
    if (!code)
        current = device;
    return code;
}

EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t code = begin();
    memset(prop, 0, sizeof *prop);
    if (!code)
        code = done(driver.name(prop->name, sizeof prop->name, device)); /* an ordinal out of range ends here */
    if (code)
        return code;
    driver.uuid(&prop->uuid, device);
    driver.memory(&prop->totalGlobalMem, device);
    prop->sharedMemPerBlock = prop->sharedMemPerMultiprocessor = (size_t)attribute(8, device);
    prop->regsPerBlock = prop->regsPerMultiprocessor = attribute(12, device);
    prop->warpSize = attribute(10, device);
    prop->maxThreadsPerBlock = attribute(1, device);
    for (int i = 0; i < 3; i++) {
        prop->maxThreadsDim[i] = attribute(2 + i, device);
        prop->maxGridSize[i] = attribute(5 + i, device);
    }
    prop->maxThreadsPerMultiProcessor = attribute(39, device);
    prop->multiProcessorCount = attribute(16, device);
    prop->unifiedAddressing = attribute(41, device);
    prop->major = attribute(75, device);
    prop->minor = attribute(76, device);
    prop->pciDomainID = attribute(50, device);
    prop->pciBusID = attribute(33, device);
    prop->pciDeviceID = attribute(34, device);
#if CUDART_VERSION < 13000
    prop->clockRate = attribute(13, device);
#endif
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr number, int device)
{
    cudaError_t code = begin();
    return code ? code : done(driver.attribute(value, (int)number, device));
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
    cudaError_t code = begin();
    return code ? code : done(driver.bus_id(id, length, device));
}

EXPORT cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    cudaError_t code = begin();
    return code ? code : done(driver.by_bus_id(device, id));
}

EXPORT cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    cudaError_t code = begin();
    if (!code)
        code = done(driver.free_memory(free, current));
    return code ? code : done(driver.memory(total, current));
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = 0;
    return begin();
}

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return begin();
}

EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    (void)device;
    *pool = NULL;
    return begin();
}

EXPORT cudaError_t cudaDeviceSynchronize(void) { return begin(); } /* nothing ever runs */

/* Stands in for driver functions that the driver stand-in lacks: torch insists on finding every name. */
static int cannot(void) { return cudaErrorNotSupported; }

EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *status)
{
    int (*stub)(void) = cannot;
    (void)version, (void)flags;
    pthread_once(&open_once, open_driver);
    if (!driver.library || !find(symbol, function))
        memcpy(function, &stub, sizeof stub);
    if (status)
        *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

#if CUDART_VERSION < 13000
EXPORT cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, status);
}
#endif
