// SPDX-License-Identifier: Apache-2.0
// mpi_calls.h - included before comm/t_mpi.c where that is compiled for the simulator: its calls of MPI go
// through network.h, and what is left of them to SimGrid's SMPI.
//
// SMPI has no MPI_Improbe and nothing that waits until a time; and it would copy every gradient. Calls that
// are not named here are SMPI's own.
#ifndef MU_SIMULATE_MPI_CALLS_H
#define MU_SIMULATE_MPI_CALLS_H

#include "simulate/network.h"

#define MPI_Improbe mu_network_improbe
#define MPI_Imrecv mu_network_imrecv
#define MPI_Get_count mu_network_get_count
#define MPI_Isend mu_network_isend
#define MPI_Irecv mu_network_irecv
#define MPI_Testsome mu_network_testsome
#define MPI_Cancel mu_network_cancel
#define MPI_Wait(request, status) ((void)(request))
#define MPI_Get_address mu_network_get_address
#define MPI_Type_create_hindexed mu_network_parts
#define MPI_Type_commit(type) MPI_SUCCESS
#define MPI_Type_free(type) ((void)(type))

#endif
