// SPDX-License-Identifier: Apache-2.0
// nodes.h - the ranks of one training, seen by the parent of one of them: frames go out and come in, and who
// is silent is lost.
//
// Each rank is the parent of learners of its own, which never see a transport. Its parent calls mu_nodes_look
// at every look at its children. What ranks say to each other about the training is ranks.h.
//
// A rank that is lost ends the training of all: MU_ERANK, which stays. So does what a rank has failed with.
// Nothing waits for a rank that may be dead: mu_nodes_wait looks while it waits.
#ifndef MU_LEARNERS_NODES_H
#define MU_LEARNERS_NODES_H

#include "comm/peers.h"
#include "comm/transport.h"
#include "ps/merge.h"
#include "ps/wire_forms.h"
#include "train/session.h"

// What a frame is about, to wait for those that are not sent yet. Gradients of even and of odd steps.
typedef enum mu_node_topic {
    MU_TOPIC_WORD, MU_TOPIC_ROUND, MU_TOPIC_COPY, MU_TOPIC_EVEN, MU_TOPIC_ODD,
    MU_TOPIC_GROUP,                     // and those behind it: weights for group 0, 1, ...
    MU_TOPICS = MU_TOPIC_GROUP + MU_RELAY_GROUPS
} mu_node_topic;
static inline mu_node_topic mu_node_topic_of_step(int64_t step) {
    return step % 2 ? MU_TOPIC_ODD : MU_TOPIC_EVEN;
}

// What the learners of a rank did with their time, since the training began: waiting is that for data,
// weights and permission, whoever they waited for.
typedef struct mu_node_times { int64_t compute_ns, wait_ns; } mu_node_times;

// Of a frame that came. *later: it is to be given again at the next look, and its arrays stay.
typedef mu_status (*mu_nodes_taker)(void *ctx, int peer, const mu_wire *w, bool *later, mu_err *err);

typedef struct mu_nodes {
    mu_transport *t;
    mu_peers  peers;
    int       rank, n;
    mu_wire_shape shape;
    mu_wire_forms forms;                // of gradients, where one server group is on all ranks; owned
    struct mu_part_forms *parts;        // the same where its learners have several workers; owned
    mu_wire_hello *hello;               // (n) own and heard; owned
    uint64_t *layout;                   // (n) the same
    bool     *greeted;                  // (n)
    bool     *full;                     // (n) while sending: a letter to it has to wait; owned
    mu_nodes_taker take;                // NULL = what comes waits
    void     *ctx;
    struct mu_letter *first;            // to be sent, in order, or under way; owned
    struct mu_letter *spare;            // frames to be used again; owned
    struct mu_held   *held;             // came, and is to be given again; owned
    int       owed[MU_TOPICS];          // letters that are not sent to all yet
    int64_t   beats;                    // signs of life sent
    mu_node_times *times;               // (n) own, and what came with the last sign of life; owned
    mu_node_times told;                 // of own ones, to rank 0
    int64_t   told_ns;                  // when
    int64_t   bytes_sent, bytes_received;
    struct mu_lent *lent;               // frames may be sent from these, whoever had them is gone; owned
    bool      parting;                  // that a rank leaves is no loss any more
    bool      unclean;                  // the process has to end by _exit
    mu_err    failed;                   // stays
} mu_nodes;

// Several processes were started together. terms NULL: as `MUSTER_RANK_TIMEOUT` says, 10 s if it is not set.
MU_MUST_CHECK mu_status mu_nodes_open(const char *transport, const mu_transport_opts *o,
                                      const mu_peers_terms *terms, mu_nodes **out, mu_err *err);
// Says to all ranks what this one trains. In which form gradients travel is settled here: before the nets are
// made ready. mu_nodes_agreed: all have said it; MU_EJOB: another job, net, ... mu_nodes_introduce: the first
// half of greeting, of which nobody is told.
MU_MUST_CHECK mu_status mu_nodes_introduce(mu_nodes *n, const mu_session *s, mu_err *err);
MU_MUST_CHECK mu_status mu_nodes_greet(mu_nodes *n, const mu_session *s, mu_err *err);
MU_MUST_CHECK mu_status mu_nodes_agreed(const mu_nodes *n, bool *all, mu_err *err);
// Both, waiting.
MU_MUST_CHECK mu_status mu_nodes_meet(mu_nodes *n, const mu_session *s, mu_err *err);
// How many ranks before this one are on its host.
int mu_nodes_before_on_host(const mu_nodes *n);
bool mu_nodes_share_host(const mu_nodes *n);    // any two of all ranks

// To a peer, or to all (-1). Arrays stay as they are until nothing is owed of the topic.
MU_MUST_CHECK mu_status mu_nodes_send(mu_nodes *n, int peer, mu_node_topic topic, const mu_wire *w,
                                      mu_err *err);
// Of own learners. Rank 0 is told now and then, by a sign of life.
static inline void mu_nodes_note_times(mu_nodes *n, mu_node_times own) { n->times[n->rank] = own; }
// The same with a count of the caller's of what is owed. It outlives the nodes, or what is owed.
MU_MUST_CHECK mu_status mu_nodes_send_counted(mu_nodes *n, int peer, int *owed, const mu_wire *w,
                                              mu_err *err);
// Sends what there is room for, takes what came, gives signs of life, notices who gives none.
MU_MUST_CHECK mu_status mu_nodes_look(mu_nodes *n, mu_err *err);
// Looks until done says so. done NULL: until nothing is owed at all.
MU_MUST_CHECK mu_status mu_nodes_wait(mu_nodes *n, bool (*done)(void *ctx), void *ctx, mu_err *err);
// A rank that has left.
bool mu_nodes_has_left(const mu_nodes *n, int peer);

// The caller is done with this memory: it is freed when no frame can be sent from it any more.
void mu_nodes_give_back(mu_nodes *n, void *memory);

// The end: tells the others of `err` where it is not NULL, says goodbye and waits for theirs, up to a few
// seconds. False: the process has to end by _exit.
bool mu_nodes_end(mu_nodes *n, const mu_err *err);
void mu_nodes_destroy(mu_nodes *n);     // NULL is fine. One that did not end well keeps what may be lent

#endif
