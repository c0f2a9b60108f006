// SPDX-License-Identifier: Apache-2.0
#include "recipe/queue.h"

#include "base/attr.h"

#include <string.h>

#include "queue_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_queues = {"queue", MU_COUNT(list), list};

void mu_queue_word(const char *word, char out[MU_QUEUE_WORD]) {
    size_t n = 0;
    const bool plain = word[0] && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                     "0123456789_./+-=:,@%")];
    if (!plain) out[n++] = '\'';
    for (; *word && n < MU_QUEUE_WORD - 6; word++) {
        if (*word == '\'') n += (size_t)sprintf(out + n, "'\\''");
        else out[n++] = *word;
    }
    if (!plain) out[n++] = '\'';
    out[n] = '\0';
}
