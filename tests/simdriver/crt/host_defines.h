/*
 * Used only where the environment's CUDA headers come without this file of the compiler's package, as in
 * NVIDIA's runtime wheels: the markers that those headers put on declarations, as a host C compiler sees them.
 */
#ifndef GPUMAP_SIM_HOST_DEFINES_H
#define GPUMAP_SIM_HOST_DEFINES_H

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)

#endif
