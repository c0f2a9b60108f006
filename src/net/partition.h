// SPDX-License-Identifier: Apache-2.0
// partition.h - one net split over the workers of a group.
//
//   unroll > bind > infer on whole shapes > cuts > emit each worker's own net > bind, infer, plan
//   (------- mu_net_shape, as always ------)  (mu_partition_create)  (--------- mu_partition_net ---------)
//
// A cut of a layer is a grid of batch parts x feature parts (layer/cut.h); a layer that is not cut stands
// whole at one worker. Part p of the grid, batch part p / feature parts, is at worker p. Job keys of a layer:
//
//   partition: batch | feature | none             as many parts as workers, or whole
//   partition: {batch: 2, feature: 2}             a grid
//   partition: auto                               the cheapest of these (partition_auto.c, traffic.h)
//   location: 1                                   where a layer stands that is whole
//
//                      worker 0                                    worker 1
//     data ─► conv1@0 ──────────────┐             data ─► conv1@1 ──────────────┐     rows 0-31 and 32-63
//             bridge(conv1@0>fc1@1) ├►concat(conv1>fc1@0)  bridge(conv1@1>fc1@0)├►concat(conv1>fc1@1)
//             bridge(conv1@1>fc1@0) ┘    ▼                 bridge(conv1@0>fc1@1)┘    ▼
//                                     fc1@0                                     fc1@1
// What a part reads is a rectangle of its source, rows x features. Where that is not what a part of the
// source at the same worker gives, layers are inserted: `slice(x>y)` takes a rectangle out of a local blob,
// `bridge(x>y)` brings one from another worker (its two ends have the same name), `concat(x>y)` puts several
// together. Readers of one rectangle at one worker share them (the net inserts its split as usual). Data is
// read by every worker; of the batch it has the rows that its layers read.
//
// Order. All layers of all workers stand in one global order, which is topological: a part follows what it
// reads, the source of a bridge stands right behind the layer whose values it sends, its destination right
// before the layer that reads them. Forward a worker runs its layers in that order, backward in the opposite
// one. Sources send and go on, destinations wait; so whoever waits, waits for a layer that is earlier in the
// order, and some worker can always go on (partition.pml, with deaths). There are no barriers: between
// layers that are cut by batch alike nothing is sent.
//
// Numbers. Draws, rows and names are those of the whole layer, initial values those of the whole parameter, a
// loss divides by the rows of the whole batch; so the gradients that the workers leave in pieces add up to
// those of the net that is not split.
//
// A partition is made from the shaped whole net, which outlives it, and outlives the nets of the workers. It
// is plain data: processes that fork inherit it, and each makes its own net.
#ifndef MU_NET_PARTITION_H
#define MU_NET_PARTITION_H

#include "comm/channel.h"
#include "net/net.h"
#include "net/traffic.h"

enum { MU_MAX_PARTS = MU_MAX_SRC };     // of a layer: a concat takes as many sources

typedef struct mu_grid { int batch, feature; } mu_grid;         // parts; 1 x 1 = whole

typedef enum mu_part_kind {
    MU_PART_LAYER, MU_PART_SLICE, MU_PART_CONCAT,
    MU_PART_SOURCE, MU_PART_DESTINATION // ends of a bridge
} mu_part_kind;

typedef struct mu_rect { int64_t row0, row1, feature0, feature1; } mu_rect;

typedef struct mu_from { const struct mu_part *l; int out; } mu_from; // l NULL: field `out` of the data

typedef struct mu_part {                // a layer of a worker's net
    mu_part_kind    kind;
    int             at;                 // in the global order
    const char     *name;               // "fc1@2", "bridge(fc1@0>fc2@1)"
    int             worker;
    const mu_layer *whole;              // LAYER: what it is a part of; NULL for inserted ones
    mu_cut          cut;                // LAYER
    int             piece;              // LAYER: among the parts by feature
    const mu_blob  *blob;               // inserted ones: the blob of the whole net that they hand on
    mu_rect         rect;               // inserted ones: what of it they give, or send
    int             n_src;
    mu_from         src[MU_MAX_SRC];
    mu_rect         src_rect[MU_MAX_SRC];       // inserted ones: what of the blob each source has
    int             bridge;             // ends of a bridge: its number
    bool            gradient;           // inserted ones: the gradient comes back through them
    struct mu_part *next_source;        // the next end of a bridge behind the same layer
    struct mu_part *sources;            // LAYER: the ends of bridges that follow it
} mu_part;

typedef struct mu_bridge {
    const char *name;
    const mu_part *source, *destination;
    size_t      bytes;                  // of a message, forward; as many back when a gradient does
    bool        gradient;
    size_t      at[2];                  // of its channels in memory, forward and back (mu_bridge_memory)
} mu_bridge;

typedef struct mu_piece {               // rows of a whole parameter that some workers have
    const mu_param *whole;
    int64_t  row0, rows;
    uint32_t workers;                   // bit w: worker w has it; their gradients add up
} mu_piece;

typedef struct mu_partition {
    mu_arena          arena;
    const mu_net     *whole;
    int               workers;
    mu_grid          *grid;             // [whole->n_layers]
    mu_part         **layer;            // the global order
    int               n_layers;
    mu_bridge        *bridge;
    int               n_bridges;
    mu_piece         *piece;            // every row of every parameter is in one of them
    int               n_pieces;
    mu_extent        *rows;             // [workers] of the batch that the worker's input has
} mu_partition;
// The rows that the layers of a worker read; begin = end: none.
mu_extent mu_partition_rows(const mu_partition *p, int worker);

enum { MU_SPLIT_NONE, MU_SPLIT_BATCH, MU_SPLIT_FEATURE, MU_SPLIT_AUTO };       // mu_partition_opts.split

typedef struct mu_partition_opts {
    const mu_net *whole;                // shaped
    int           workers;
    // For layers that say nothing: a part for each worker by batch or by feature where the layer may be cut
    // so, else whole. Inserted layers of unrolled nets follow their neighbours.
    int           split;
    // How layers that are cut as is best (`auto`) are judged; zeros: one learner, by mu_price_in_bytes.
    mu_traffic_opts traffic;
    mu_pricing      pricing;
} mu_partition_opts;

// Problems go to the binder's diags, with the layer, its place and what is possible, and give MU_EJOB.
mu_status mu_partition_create(mu_binder *b, const mu_partition_opts *o, mu_partition **out, mu_err *err);
void      mu_partition_destroy(mu_partition *p);
// Bytes that leave their worker in a step: values forward, gradients back.
size_t    mu_partition_bytes(const mu_partition *p);
// And of parameters: dense gradients of pieces that several workers have, all but the one that stays.
size_t    mu_partition_gradient_bytes(const mu_partition *p);
size_t    mu_piece_gradient_bytes(const mu_piece *p);
// Type and output of a part; no output: n = 0.
const char *mu_part_type(const mu_part *l);
mu_shape  mu_part_shape(const mu_part *l);
// One line a layer in the global order, then the sum.
void      mu_partition_print(const mu_partition *p, FILE *out);

// The net of one worker: shaped, to be made ready where it runs. Phase, batch and all that the whole net was
// made with are the same.
mu_status mu_partition_net(mu_binder *b, const mu_partition *p, int worker, mu_net **out, mu_err *err);
// Opens the channels of the ends of bridges that this net has: values forward, and back where a gradient
// comes back. Before the first pass, in the process that runs the net; destroying it closes them. What kind
// of channels is the opener's choice.
typedef mu_status mu_bridge_opener(void *ctx, const mu_bridge *b, bool back, mu_channel **out, mu_err *err);
mu_status mu_partition_connect(mu_net *net, const mu_partition *p, mu_bridge_opener *open, void *ctx,
                               mu_err *err);
// What its ends have sent so far.
uint64_t  mu_partition_bytes_sent(const mu_net *net);

// The opener for channels in memory that all workers see; all bridges lie in one block.
typedef struct mu_bridge_memory {
    char             *base;             // mu_bridge_memory_bytes, zeroed, at a multiple of 64
    mu_channel_terms *terms;
} mu_bridge_memory;
size_t           mu_bridge_memory_bytes(const mu_partition *p);
mu_bridge_opener mu_open_bridge_memory;
void             mu_bridge_memory_reset(const mu_partition *p, char *base);     // no worker runs

// `partition` and `location` of layer blocks: problems of the block alone go to the diags.
typedef struct mu_layer_split {
    enum { MU_LAYER_SPLIT_DEFAULT, MU_LAYER_SPLIT_NONE, MU_LAYER_SPLIT_BATCH, MU_LAYER_SPLIT_FEATURE,
           MU_LAYER_SPLIT_AUTO, MU_LAYER_SPLIT_GRID } kind;
    mu_grid grid;               // of GRID
    int64_t location;           // -1 = not given
} mu_layer_split;
mu_layer_split mu_layer_split_read(mu_binder *b, const mu_node *block, const char *layer);

#endif
