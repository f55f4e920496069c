/* Constant operands, packed once for the kernels that read them and shared by all plans that hold the same bytes. What
 * is in a pack is the matter of the family of ops that builds it; here are its memory, its budget and its users. */
#ifndef ORTWIN_RUN_PACKS_H
#define ORTWIN_RUN_PACKS_H

#include "run/counters.h"

#include <stddef.h>
#include <stdint.h>

enum { OW_PACK_PARAMETERS = 6, OW_PACK_SOURCES = 5 };

/* What a pack is made of. Two recipes of one form and the same parameters are of one layout; a pack is shared where the
 * sources' hashes are equal as well, and then the bytes of the packs themselves. */
typedef struct ow_pack_recipe {
    const void *form;                      /* whose layout it is: a kernel table, or a part of one */
    size_t parameters[OW_PACK_PARAMETERS]; /* shapes and whatever else the layout follows from */
    struct {
        const void *data; /* NULL with 0 bytes: there is none */
        size_t bytes;
    } sources[OW_PACK_SOURCES];
    size_t bytes; /* of the pack; SIZE_MAX where that does not fit in memory's address range */
    /* Fills in the pack, of zeros and aligned to 64 bytes. False for want of memory. Runs in the state of C4. */
    int (*build)(const struct ow_pack_recipe *recipe, void *target);
} ow_pack_recipe;

typedef struct ow_pack {
    const void *data;
    size_t bytes;
} ow_pack;

/* The pack of a recipe, to be given back; NULL if it was declined, for the budget or for want of memory: ops then pack
 * as they go, with the same bits. The verdict falls before anything is built. */
const ow_pack *ow_pack_take(const ow_pack_recipe *recipe, ow_tally *tally);
/* Gives it back; with its last user it is freed. NULL is allowed. */
void ow_pack_give(const ow_pack *pack, ow_tally *tally);

/* Bytes that all packs together may take. At first that of the environment variable ORTWIN_PACK_BYTES, else 1 GiB. */
void ow_pack_budget(uint64_t bytes);

#endif
