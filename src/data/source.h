// SPDX-License-Identifier: Apache-2.0
// source.h - station 2: an ordered, transformed stream of batches over a reader.
//
// The stream is a function of (seed, position): sample number g of the run is record
// permute(seed, epoch = g / n, g mod n). Training batches run on over epoch ends, so every record is
// used exactly once per epoch and no batch is short. Evaluation reads records 0..n-1 in order once;
// its last batch may be short (batch->n < batch size).
//
// A bad record is counted and named in the log. In training it is replaced by the next good record in
// the same permutation, in evaluation it is left out of its batch, in prediction it is an error; more than
// max_bad of them stop the run with MU_EDATA. Where records continue each other (streams) the first one does:
// its neighbours' states would come to the wrong streams.
//
// Data in streams: training sets the field `begin` to 1 now and then (`reset`, data/streams.h), besides where
// the reader does; evaluations are warmed up (mu_source_seek_warmup).
//
// Transformation of image fields: crop (random in training, centre otherwise; shift lets the window hang
// over the edge), minus mean (of the pixel's place before cropping, or per channel), times scale, mirror
// (random, training only). Other
// byte and float fields only get mean and scale; int32 fields (labels) pass unchanged. Random choices
// are keyed by (seed, sample number). Batches hold images as NHWC floats.
//
// `mean: auto` is the mean record of the data set itself, made at open by one pass over it.
// Evaluation must subtract the training mean: pass what the model knows of it (opts.inputs), or the training
// source as opts.mean_of.
//
// Prefetch: mu_source_start runs one thread that fills a ring of batches; mu_source_next hands out the
// oldest and takes back the one before it. Without start, next fills inline: same batches, same order.
#ifndef MU_DATA_SOURCE_H
#define MU_DATA_SOURCE_H

#include "data/finished.h"
#include "data/inputs.h"
#include "data/split.h"
#include "data/streams.h"
#include "job/job.h"

typedef struct mu_batch {
    int64_t     first;                  // sample number of row 0; < 0: warm-up, nothing of it counts
    int64_t     n;                      // valid rows; rows beyond are stale
    int64_t     begin, end;             // of these the ones that were read: all, or mu_source_set_rows
    mu_tensor   field[MU_MAX_FIELDS];   // (batch, ...) as the reader's fields after transformation
} mu_batch;

typedef struct mu_source_opts {
    int64_t  batch;
    uint64_t seed;
    mu_phase phase;                     // training shuffles (if asked), augments and never ends
    bool     shuffle;
    int64_t  first_row, n_rows;         // rows of each global batch this learner takes; n_rows 0 = all
    const mu_source *mean_of;           // `mean: auto` takes this source's mean; NULL = over its own records
    const mu_node *like;                // block whose transformation counts where this one says nothing
    const mu_inputs *inputs;            // of the model that reads; before mean_of. NULL = none, or training
    int      node, nodes;               // ranks that train, and this one; of a shard. nodes 0 = not known
} mu_source_opts;

typedef struct mu_source_spec {         // one block of `data:`, bound
    const mu_reader_class *reader;
    const void *reader_state;           // bound; in the binder's arena
    mu_srcpos   pos;
    const mu_node *block;               // for the places of later findings; NULL in tests
    float       scale;
    mu_strings  mean;                   // as written: numbers (one, or one per channel), or the word auto
    bool        mean_auto;              // read from it, with
    mu_floats   mean_values;            // the numbers
    const char *mean_file;              // raw little-endian floats: one per channel, or per element (HWC)
    bool        mean_inherited;         // both are those of the training data
    int64_t     crop[2];                // height, width; 0 = none
    int64_t     shift[2];               // pixels up or down, left or right, training only
    bool        mirror;
    int64_t     limit;                  // records used, 0 = all
    int         part;                   // of these, a mu_split_part
    float       fraction;               // of it, with
    int64_t     split_seed;
    int64_t     max_bad;                // -1 = a thousandth of the records, at least 10
    int         reset;                  // a mu_reset, of streams in training
    int64_t     reset_every;            // records
    int64_t     warmup;                 // records of each stream, in evaluations
} mu_source_spec;

// Binds without opening; what `muster data` needs to reach the bare reader. MU_EJOB after reporting.
MU_MUST_CHECK mu_status mu_source_bind(mu_binder *b, const mu_node *block, mu_source_spec *out, mu_err *err);
// Takes scale, mean and crop of the block `like` where spec's own says nothing: a net that was trained on
// scaled input gets it scaled in every phase. Problems of `like` are its own and not reported here.
void mu_source_inherit(mu_binder *b, const mu_node *like, mu_source_spec *spec);
// Opens a bound block. Borrows what spec points to for the life of the source.
MU_MUST_CHECK mu_status mu_source_open_spec(const mu_source_spec *spec, const mu_source_opts *o,
                                            mu_source **out, mu_err *err);

// Binds and opens one block of `data:` (reader class by key `reader`, plus the transformation fields
// of mu_source_fields). Problems go to the binder's diags (MU_EJOB returned); failures of the files go to
// err.
mu_status mu_source_open(mu_binder *b, const mu_node *block, const mu_source_opts *o,
                         mu_source **out, mu_err *err);
void      mu_source_close(mu_source *s);        // stops the thread; NULL is fine

const mu_reader *mu_source_reader(const mu_source *s);
int              mu_source_n_fields(const mu_source *s);
// Field after transformation (cropped shape); shape has no batch axis.
const mu_data_field *mu_source_field(const mu_source *s, int i);
int64_t          mu_source_n_records(const mu_source *s);       // after `limit`, of its part; of all shards
int64_t          mu_source_record(const mu_source *s, int64_t i);       // the reader's number of record i

// The next batch starts at this sample number. Not while started.
mu_status mu_source_seek(mu_source *s, int64_t sample, mu_err *err);
// The same for an evaluation from record 0 on. Where streams are parts of one text, batches of the records
// before come first (batch->first < 0): read by the net and not counted, they leave it the states with which
// record 0 and its neighbours go on.
mu_status mu_source_seek_warmup(mu_source *s, mu_err *err);
// From now on sample numbers of training are those of a run that goes on from `f` (finished.h), which is
// copied. Random choices go by the sample, a batch keeps its numbers. Not while started.
void      mu_source_set_finished(mu_source *s, const mu_finished *f);
// Do records continue each other, or are they a shard's? Then they are used in order, and a run that goes on
// has nothing finished beyond its cursor.
bool      mu_source_in_order(const mu_source *s);
// Of a shard (shard.h): samples of a step of all ranks, which come in turn. Before anything is read.
void      mu_source_set_step(mu_source *s, int64_t samples);
// Where a run may go on that has finished all samples below this: there, or, of a shard, between two steps.
int64_t   mu_source_begin(const mu_source *s, int64_t cursor);
// Batches are whatever `lease` says, instead of one after the other: samples [*first, *first + *rows), at
// most the rows of a batch. False ends the stream. Called by the filling side, so by the prefetch thread
// once started; training only. Not while started.
typedef bool (*mu_source_lease)(void *ctx, int64_t *first, int64_t *rows);
void      mu_source_set_lease(mu_source *s, mu_source_lease lease, void *ctx);
// Of each batch only the rows [begin, end) are read from now on, at their places: for a process that looks at
// no others. They are what they would be among all. Training only; not while started.
void      mu_source_set_rows(mu_source *s, int64_t begin, int64_t end);
bool      mu_source_stopping(const mu_source *s);                       // for a lease that waits
mu_status mu_source_start(mu_source *s, mu_err *err);                   // starts the prefetch thread
void      mu_source_stop(mu_source *s);                                 // joins it; next() works inline again
// The next batch; valid until the following call. Evaluation past the end: *out = NULL.
mu_status mu_source_next(mu_source *s, const mu_batch **out, mu_err *err);

// One record of field i that does not come from the reader, transformed as evaluation does: `record` holds
// floats as the reader's field (images HWC, not yet cropped), dst gets one row of a batch (int32 fields are
// rounded). Thread: any, also while the source runs.
void mu_source_transform(const mu_source *s, int i, const float *record, void *dst);

// The mean that is subtracted from field i, HWC order of the uncropped record; NULL = none.
// *n is the number of channels or of the elements of a record.
const float *mu_source_mean(const mu_source *s, int i, size_t *n);

typedef struct mu_source_stats {
    int64_t n_bad, n_read;              // records: bad ones, by all processes; read by this one, bad or not
    double  wait_s;                     // next() waited for the prefetcher
} mu_source_stats;
mu_source_stats mu_source_get_stats(const mu_source *s);

extern const mu_field mu_source_fields[];       // the transformation keys, for help and the reference

#endif
