// SPDX-License-Identifier: Apache-2.0
// safetensors.h - named arrays in the format PyTorch's users exchange, read and written.
//
//   +--------+----------------------------------------+----------------------------+
//   | u64 N  | N bytes: JSON header, padded by spaces  | data, packed without holes |
//   +--------+----------------------------------------+----------------------------+
//   header: {"__metadata__":{"k":"v"},
//            "conv1.weight":{"dtype":"F32","shape":[20,1,5,5],"data_offsets":[0,2000]},...}
//
// Everything is little endian and row-major. The writer orders by falling element size, then by name,
// and pads the header to 8 bytes, so each array is aligned. The loader trusts nothing: there is one way
// to open a file and it checks all of it (see mu_st_parse) before any pointer is handed out.
#ifndef MU_FILE_SAFETENSORS_H
#define MU_FILE_SAFETENSORS_H

#include "base/err.h"
#include "file/outfile.h"
#include "tensor/tensor.h"

#define MU_ST_MAX_HEADER ((size_t)100000000)    // as upstream
#define MU_ST_MAX_TENSORS 16384u

//         name      bytes per element
#define MU_ST_DTYPE_MAP(X)                                                                         \
    X(BOOL, 1) X(U8, 1) X(I8, 1) X(F8_E5M2, 1) X(F8_E4M3, 1) X(I16, 2) X(U16, 2) X(F16, 2) X(BF16, 2) \
    X(I32, 4) X(U32, 4) X(F32, 4) X(F64, 8) X(I64, 8) X(U64, 8)

typedef enum mu_st_dtype {
#define X(name, bytes) MU_ST_##name,
    MU_ST_DTYPE_MAP(X)
#undef X
} mu_st_dtype;

const char *mu_st_dtype_name(mu_st_dtype t);    // "F32"
size_t      mu_st_dtype_bytes(mu_st_dtype t);

typedef struct mu_st_tensor {
    const char *name;           // UTF-8
    mu_st_dtype dtype;
    mu_shape    shape;
    const void *data;           // written: borrowed. Loaded: in the mapping, perhaps not aligned
    size_t      size_bytes;     // written: 0 = take it from shape and dtype. Loaded: always exact
} mu_st_tensor;

typedef struct mu_st_meta { const char *key, *value; } mu_st_meta;

typedef struct mu_st_file mu_st_file;

// Maps the file read-only and validates it. MU_ENOTFOUND, MU_EIO, or MU_EMODEL naming file and reason.
// The file must not be truncated while it is open (files of ours are replaced, never rewritten).
MU_MUST_CHECK mu_status mu_st_open(const char *path, mu_st_file **out, mu_err *err);
// The same from memory, which is borrowed until mu_st_close. Checked: header length against file and
// limit, first byte `{`, strict JSON without duplicate keys, known dtypes, at most MU_MAX_DIMS
// non-negative sizes, products without overflow, offsets that match the shapes and together cover the
// data from its first to its last byte without hole or overlap. Empty arrays may share an offset.
MU_MUST_CHECK mu_status mu_st_parse(const void *data, size_t size, const char *path, mu_st_file **out,
                                    mu_err *err);
void mu_st_close(mu_st_file *f);                // NULL is fine; all pointers into it end here

size_t              mu_st_count(const mu_st_file *f);
const mu_st_tensor *mu_st_at(const mu_st_file *f, size_t i);            // sorted by name; i < count
const mu_st_tensor *mu_st_find(const mu_st_file *f, const char *name);  // NULL = not there
const char         *mu_st_about(const mu_st_file *f, const char *key);  // its metadata; NULL = not there

// Copies an F32 array after comparing its shape with `want`. MU_EMODEL with both shapes or dtypes.
MU_MUST_CHECK mu_status mu_st_copy_f32(const mu_st_tensor *t, const mu_shape *want, float *out, mu_err *err);

// ---- writing ----

// A float array as the writer wants it.
static inline mu_st_tensor mu_st_f32(const char *name, mu_shape shape, const float *data) {
    return (mu_st_tensor){ .name = name, .dtype = MU_ST_F32, .shape = shape, .data = data };
}

// Writes one complete safetensors stream. MU_EUSAGE for a name that is empty, double, `__metadata__` or
// not UTF-8, for a shape that overflows, and for more tensors than a loader accepts. Whether the disk took
// it all is said by mu_outfile_commit.
MU_MUST_CHECK mu_status mu_st_write(mu_outfile *out, const mu_st_tensor *tensors, size_t n,
                                    const mu_st_meta *meta, size_t n_meta, mu_err *err);
// The same as a file of its own: dir/name is replaced atomically.
MU_MUST_CHECK mu_status mu_st_save(const char *dir, const char *name, const mu_st_tensor *tensors, size_t n,
                                   const mu_st_meta *meta, size_t n_meta, mu_err *err);

#endif
