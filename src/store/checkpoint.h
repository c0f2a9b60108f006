// SPDX-License-Identifier: Apache-2.0
// checkpoint.h - saving and loading the state of a training.
//
//   checkpoints/
//     step-400/    model.safetensors  updater.safetensors  manifest.json
//     step-500/    ...
//     step-500-2/  other weights of the same number: after a return to an older checkpoint
//     LATEST       "step-500-2\n"   for people and scripts; the loader does not depend on it
//     BEST         "step-400\n"     the one to keep whatever comes later
//
// A name holds the version: the changes of the weights so far, with one learner and by hardsync the steps. It
// belongs to its weights for good. Saved again, they get a new manifest.json and nothing else; other weights
// of the same version get another name. Only a damaged folder is replaced, by the weights that it had.
//
// A save writes step-N.tmp/, syncs files and folder, reads everything back against the checksums, and
// only then renames it to step-N/ and syncs the parent: a complete name means complete content. Older
// checkpoints are removed after that, each by renaming it to .tmp first. So whenever the process is
// killed or the power fails, the newest complete checkpoint is exactly the last or the one before; a
// failed save (full disk, I/O error) leaves the old ones as they were. A damaged folder that is replaced is
// step-N.old until the new one is in place; the loader knows that name.
//
// Arrays are stored by global name and shape, never by rank. "Newest" is by a serial number in the
// manifest, not by step (a rollback goes back in steps) and not by clock.
// One process saves into a folder at a time (store/rundir.h holds the lock); loading needs no lock.
#ifndef MU_STORE_CHECKPOINT_H
#define MU_STORE_CHECKPOINT_H

#include "store/manifest.h"
#include "file/fs.h"
#include "file/safetensors.h"

#define MU_CKPT_MODEL "model.safetensors"
#define MU_CKPT_UPDATER "updater.safetensors"
#define MU_CKPT_NAME 40         // bytes of "step-<int64>-<int>.old" and its terminator

typedef struct mu_ckpt {        // what to save; everything borrowed
    mu_ckpt_meta        meta;
    const mu_st_tensor *params;         // parameters and other state of layers (running means), by name
    size_t              n_params;
    const mu_st_tensor *slots;          // updater state, named "<parameter>/<slot>"
    size_t              n_slots;        // 0 = no updater file
    const mu_st_meta   *about;          // texts saved with the parameters
    size_t              n_about;
} mu_ckpt;

typedef struct mu_ckpt_opts {
    int64_t keep;               // newest complete ones to keep, >= 1
    bool    best;               // mark this one as the best; the mark survives later saves without it
} mu_ckpt_opts;

// Saves into `dir` (made if needed). MU_EDIVERGED names the array that holds a non-finite value: nothing
// is written then. MU_EIO with errno text. After a failure all earlier checkpoints are intact.
// `saved`, if not NULL, gets the folder's name ("step-500").
MU_MUST_CHECK mu_status mu_ckpt_save(const char *dir, const mu_ckpt *state, const mu_ckpt_opts *opts,
                                     char saved[MU_CKPT_NAME], mu_err *err);

typedef enum mu_ckpt_which { MU_CKPT_NEWEST, MU_CKPT_BEST } mu_ckpt_which;

typedef struct mu_ckpt_loaded {
    char               path[MU_FS_PATH];        // of the step folder
    const mu_manifest *manifest;
    const mu_st_file  *params;                  // mu_st_find(params, "conv1.weight")
    const mu_st_file  *slots;                   // NULL = saved without updater state
} mu_ckpt_loaded;

// `path`: a folder of checkpoints, or one step folder (then `which` does not matter). The checksums of all
// files are verified before anything is handed out. NEWEST: a damaged checkpoint is skipped with a warning
// that names file and place. BEST: no substitute is taken. MU_ENOTFOUND when there is none at all,
// MU_EMODEL when none (or not the one asked for) is intact.
MU_MUST_CHECK mu_status mu_ckpt_load(const char *path, mu_ckpt_which which, mu_ckpt_loaded **out,
                                     mu_err *err);
void mu_ckpt_unload(mu_ckpt_loaded *c);         // NULL is fine; ends all pointers into it

// Verifies one step folder: manifest, sizes, checksums, safetensors structure.
MU_MUST_CHECK mu_status mu_ckpt_verify(const char *step_dir, mu_err *err);

typedef struct mu_ckpt_entry {
    char    name[MU_CKPT_NAME];
    int64_t version;            // from the name
    int64_t serial;             // from the manifest; -1 = manifest unreadable
    bool    best;               // named by BEST
} mu_ckpt_entry;

// Complete checkpoints of `dir`, newest first (unreadable ones last). *out is owned (mu_free), NULL for
// none. A folder that does not exist holds none.
MU_MUST_CHECK mu_status mu_ckpt_list(const char *dir, mu_ckpt_entry **out, size_t *n, mu_err *err);

#endif
