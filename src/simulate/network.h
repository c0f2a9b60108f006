// SPDX-License-Identifier: Apache-2.0
// network.h - MPI for the transport of a simulated rank: messages of their true sizes go over SMPI, what they
// say goes from rank to rank in this process, by the way.
//
// What a frame has in blocks of floats is zero everywhere and always (memory.h), so only its head and what
// else is small is taken along.
//
//   at most 64 KB     one message of this size, under way as soon as it is sent
//   longer            an announcement of 64 bytes; the message itself leaves when the other rank has taken
//                     that, and wants it (so does Open MPI by TCP: its rendezvous)
//
// Requests that the transport holds are of this file. Those of SMPI are kept behind them: a few special ones
// and the oldest of the others are waited for, as looking at all of thousands would cost more than the
// simulation.
#ifndef MU_SIMULATE_NETWORK_H
#define MU_SIMULATE_NETWORK_H

#include "base/err.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mu_network_counts { // of one rank
    int64_t messages, bytes_sent, bytes_received;
} mu_network_counts;

MU_MUST_CHECK mu_status mu_network_open(int ranks, double ns_per_byte, mu_err *err);
// Of the rank that is running, after MPI_Init. Waits until anything has come or gone, or it is that late.
void mu_network_wait(int64_t until_ns);
mu_network_counts mu_network_get_counts(int rank);

// ---- MPI, as t_mpi.c calls it ----

int mu_network_improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                       MPI_Status *status);
int mu_network_imrecv(void *to, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request);
int mu_network_get_count(const MPI_Status *status, MPI_Datatype type, int *count);
int mu_network_isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                     MPI_Request *request);
int mu_network_irecv(void *to, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                     MPI_Request *request);
int mu_network_testsome(int n, MPI_Request *request, int *done, int *index, MPI_Status *status);
int mu_network_cancel(MPI_Request *request);
int mu_network_get_address(const void *at, MPI_Aint *out);
int mu_network_parts(int n, const int *length, const MPI_Aint *at, MPI_Datatype type, MPI_Datatype *out);

#endif
