// SPDX-License-Identifier: Apache-2.0
// partition_explain.h - what was to choose from when a net was split, and why it is as it is.
//
// Figures of a layer are those of the terms of cost it takes part in (partition_auto.h), with all other
// layers as they were chosen: what it moves itself, and what it makes its neighbours move. So they tell
// options of one layer apart, and are not to be added up over layers. The sums are of the whole net.
#ifndef MU_NET_PARTITION_EXPLAIN_H
#define MU_NET_PARTITION_EXPLAIN_H

#include "net/partition.h"

typedef struct mu_xray_option {
    mu_grid     grid;
    int         location;               // of a whole layer
    mu_cut_load load;
    int64_t     price;                  // by the pricing of the options
    bool        possible;               // not so: what it shares with other layers is cut differently
} mu_xray_option;

typedef struct mu_xray_layer {          // of the job, with all copies
    const mu_layer *layer;
    int             n, chosen;
    mu_xray_option *option;
    const char     *why;                // the chosen one
} mu_xray_layer;

enum { MU_XRAY_BATCH, MU_XRAY_FEATURE, MU_XRAY_CHOSEN, MU_XRAY_SUMS };

typedef struct mu_xray {
    mu_arena       arena;
    int            workers, n_layers;
    mu_xray_layer *layer;
    struct {
        const char *name;
        bool        possible;
        mu_cut_load dense, sent;        // with dense gradients, and with the forms that travel
    } sum[MU_XRAY_SUMS];                // every layer by batch or by feature that may be; as chosen
    bool           dense;               // chosen for dense gradients
    bool           exact;               // the optimum of all assignments
} mu_xray;

// As mu_partition_create would choose: problems go to the diags. The whole net outlives it.
mu_status mu_partition_explain(mu_binder *b, const mu_partition_opts *o, mu_xray **out, mu_err *err);
void      mu_xray_destroy(mu_xray *x);
void      mu_xray_print(const mu_xray *x, FILE *out);
// "batch", "feature", "2 x 2", "whole", "whole at 1".
void      mu_xray_option_text(const mu_xray_option *o, char out[32]);

#endif
